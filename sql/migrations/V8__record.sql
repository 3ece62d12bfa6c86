-- What a burst did is one row, its record, in place of a row for each entry of the journal and each execution that it
-- touched: these were most of what a commit cost. The views `journal` and `activity_execution` show the same as the
-- tables of these names did.

-- Append-only, partitioned by the commit's now(), never by a node's clock.
CREATE TABLE record (
    tenant_id text NOT NULL,
    instance_id text NOT NULL,
    -- Of the instance, by this commit.
    version bigint NOT NULL,
    at timestamptz NOT NULL,
    began_at timestamptz NOT NULL,
    -- The journal's entries have the numbers from first_entry on, without a gap.
    first_entry bigint NOT NULL,
    entries integer NOT NULL,
    -- JSON: {"who": [[id, parent, activity, node, type, type version, name]],
    --        "journal": [[place in who, microseconds since began_at, event, message, source, state, payload]],
    --        "executions": [[place in who, status, started, completed, state, outputs, payload, properties, exception,
    --                        has bookmarks, faults]]}.
    -- Text, because a type that looks into it costs each commit more than it is worth; who reads it casts it.
    body text NOT NULL,
    PRIMARY KEY (instance_id, version, at, tenant_id)
) PARTITION BY RANGE (at);

ALTER TABLE journal RENAME TO old_journal;
ALTER TABLE activity_execution RENAME TO old_execution;

-- One row per entry.
CREATE VIEW journal AS
SELECT r.tenant_id, r.instance_id, r.first_entry + j.place - 1 AS sequence, r.at, r.version,
       r.began_at + (j.entry->>1)::bigint * interval '1 microsecond' AS happened_at, j.entry->>2 AS event_name,
       w.who->>0 AS activity_execution_id, w.who->>1 AS parent_activity_execution_id, w.who->>2 AS activity_id,
       w.who->>4 AS activity_type, (w.who->>5)::integer AS activity_type_version, w.who->>6 AS activity_name,
       w.who->>3 AS node_id, j.entry->>3 AS message, j.entry->>4 AS source,
       CASE WHEN json_typeof(j.entry->5) <> 'null' THEN j.entry->5 END AS activity_state,
       CASE WHEN json_typeof(j.entry->6) <> 'null' THEN j.entry->6 END AS payload
FROM record r
CROSS JOIN LATERAL json_array_elements(r.body::json->'journal') WITH ORDINALITY j(entry, place)
JOIN LATERAL json_array_elements(r.body::json->'who') WITH ORDINALITY w(who, place)
    ON w.place = (j.entry->>0)::bigint + 1;

-- One row per commit that touched the execution; the newest version of an id is its present state.
CREATE VIEW activity_execution AS
SELECT r.tenant_id, r.instance_id, w.who->>0 AS id, r.version, r.at, w.who->>1 AS parent_activity_execution_id,
       w.who->>2 AS activity_id, w.who->>3 AS node_id, w.who->>4 AS activity_type,
       (w.who->>5)::integer AS activity_type_version, w.who->>6 AS activity_name, e.done->>1 AS status,
       -- Null: in an earlier commit.
       r.began_at + (e.done->>2)::bigint * interval '1 microsecond' AS started_at,
       r.began_at + (e.done->>3)::bigint * interval '1 microsecond' AS completed_at,
       CASE WHEN json_typeof(e.done->4) <> 'null' THEN e.done->4 END AS activity_state,
       CASE WHEN json_typeof(e.done->5) <> 'null' THEN e.done->5 END AS outputs,
       CASE WHEN json_typeof(e.done->6) <> 'null' THEN e.done->6 END AS payload,
       CASE WHEN json_typeof(e.done->7) <> 'null' THEN e.done->7 END AS properties,
       CASE WHEN json_typeof(e.done->8) <> 'null' THEN e.done->8 END AS exception,
       (e.done->>9)::boolean AS has_bookmarks, (e.done->>10)::integer AS fault_count
FROM record r
CROSS JOIN LATERAL json_array_elements(r.body::json->'executions') e(done)
JOIN LATERAL json_array_elements(r.body::json->'who') WITH ORDINALITY w(who, place)
    ON w.place = (e.done->>0)::bigint + 1;

-- The partition of a day, unless it stands.
CREATE FUNCTION make_partition(day date) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    partition text := 'record_' || to_char(day, 'YYYYMMDD');
BEGIN
    IF to_regclass(quote_ident(current_schema()) || '.' || quote_ident(partition)) IS NOT NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE record INCLUDING ALL)', partition);
    -- A record stays in its row as long as that fits a page; what is larger is compressed, by the faster way if the
    -- server has it.
    EXECUTE format('ALTER TABLE %I SET (toast_tuple_target = 8160)', partition);
    BEGIN
        EXECUTE format('ALTER TABLE %I ALTER COLUMN body SET COMPRESSION lz4', partition);
    EXCEPTION WHEN feature_not_supported THEN
        NULL;
    END;
    EXECUTE format('ALTER TABLE record ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', partition,
        day::timestamp AT TIME ZONE 'UTC', (day + 1)::timestamp AT TIME ZONE 'UTC');
    RETURN true;
END $$;

-- Makes the partitions of today and the days ahead, by CREATE and ATTACH, so that readers are not stopped.
-- Any number of nodes may call it at once.
CREATE OR REPLACE FUNCTION ensure_partitions(days_ahead integer) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    first_day date := (now() AT TIME ZONE 'UTC')::date;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext(current_schema()), hashtext('partitions'));
    RETURN (SELECT count(*) FILTER (WHERE make_partition(first_day + ahead)) FROM generate_series(0, days_ahead) ahead);
END $$;

-- What was written before.
SELECT make_partition(d.day)
FROM (SELECT DISTINCT (at AT TIME ZONE 'UTC')::date AS day FROM old_journal
      UNION SELECT DISTINCT (at AT TIME ZONE 'UTC')::date FROM old_execution) d;
INSERT INTO record (tenant_id, instance_id, version, at, began_at, first_entry, entries, body)
SELECT k.tenant_id, k.instance_id, k.version, k.at, k.at, coalesce(j.first_entry, 0), coalesce(j.entries, 0),
       json_build_object('who', coalesce(w.who, '[]'), 'journal', coalesce(j.entry, '[]'),
                         'executions', coalesce(e.done, '[]'))::text
FROM (SELECT tenant_id, instance_id, version, at FROM old_journal
      UNION SELECT tenant_id, instance_id, version, at FROM old_execution) k
CROSS JOIN LATERAL (
    SELECT json_agg(json_build_array(u.id, u.parent, u.activity_id, u.node_id, u.activity_type, u.type_version, u.name)
                    ORDER BY u.place) AS who
    FROM (SELECT o.sequence AS place, o.activity_execution_id AS id, o.parent_activity_execution_id AS parent,
                 o.activity_id, o.node_id, o.activity_type, o.activity_type_version AS type_version,
                 o.activity_name AS name
          FROM old_journal o
          WHERE o.tenant_id = k.tenant_id AND o.instance_id = k.instance_id AND o.version = k.version AND o.at = k.at
          UNION ALL
          SELECT 9000000000000000000 + row_number() OVER (ORDER BY x.id), x.id, x.parent_activity_execution_id,
                 x.activity_id, x.node_id, x.activity_type, x.activity_type_version, x.activity_name
          FROM old_execution x
          WHERE x.tenant_id = k.tenant_id AND x.instance_id = k.instance_id AND x.version = k.version AND x.at = k.at) u
) w
CROSS JOIN LATERAL (
    SELECT min(o.sequence) AS first_entry, count(*)::integer AS entries,
           json_agg(json_build_array(o.place, o.micros, o.event_name, o.message, o.source, o.activity_state, o.payload)
                    ORDER BY o.sequence) AS entry
    FROM (SELECT o.*, row_number() OVER (ORDER BY o.sequence) - 1 AS place,
                 (extract(epoch FROM o.happened_at - k.at) * 1000000)::bigint AS micros
          FROM old_journal o
          WHERE o.tenant_id = k.tenant_id AND o.instance_id = k.instance_id AND o.version = k.version AND o.at = k.at) o
) j
CROSS JOIN LATERAL (
    SELECT json_agg(json_build_array(coalesce(j.entries, 0) + x.place, x.status,
                                     (extract(epoch FROM x.started_at - k.at) * 1000000)::bigint,
                                     (extract(epoch FROM x.completed_at - k.at) * 1000000)::bigint,
                                     x.activity_state, x.outputs, x.payload, x.properties, x.exception,
                                     x.has_bookmarks, x.fault_count)
                    ORDER BY x.place) AS done
    FROM (SELECT x.*, row_number() OVER (ORDER BY x.id) - 1 AS place
          FROM old_execution x
          WHERE x.tenant_id = k.tenant_id AND x.instance_id = k.instance_id AND x.version = k.version AND x.at = k.at) x
) e;
DROP TABLE old_journal, old_execution;
DROP TYPE commit_journal, commit_execution;

-- The commit contract.
CREATE TYPE commit_record AS (no integer, first_entry bigint, entries integer, body text);
