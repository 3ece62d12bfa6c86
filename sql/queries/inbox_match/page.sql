-- purpose: start what the inbox keeps for the triggers of a definition, the oldest first, at most $6 starts and $7 bytes of
--          payload at once: each stimulus starts each trigger of its hash once, unless the activation strategy refuses it.
--          Without such a trigger, or without further stimuli, the match ends
-- caller:  store::inbox_match, in a statement after the one that locked the row of the match: its snapshot is newer than
--          any publish of the definition before
-- index:   inbox_open, inbox_pkey, activation_held, inbox_match_pkey
-- locks:   inbox rows by id, then activation by key, then work
WITH source AS MATERIALIZED (
    SELECT t.activity_id, d.definition_id, d.version_id, d.version, d.activation_strategy,
           CASE WHEN d.seeding = 2 /* seed */ THEN raise_activation_unseeded() ELSE true END AS is_ready
    FROM trigger t
    JOIN definition d ON d.tenant_id = t.tenant_id AND d.definition_id = t.definition_id AND d.is_published
    WHERE t.tenant_id = $1 AND t.definition_id = $2 AND t.hash = $3
), bound AS MATERIALIZED (
    SELECT count(*) AS triggers, greatest($6::bigint / greatest(count(*), 1), 1) AS stimuli,
           bool_and(s.is_ready) AS is_ready
    FROM source s
), oldest AS MATERIALIZED (
    SELECT x.id, coalesce(pg_column_size(x.payload), 0) AS bytes
    FROM inbox x
    WHERE (SELECT b.is_ready FROM bound b)
      AND x.hash = $3 AND coalesce(x.instance_id, x.activity_execution_id) IS NULL
      AND x.id + 0 > $4::bigint AND x.id + 0 <= $5::bigint
      AND x.tenant_id = $1 AND x.expires_at > now()
    ORDER BY x.id + 0
    LIMIT (SELECT b.stimuli FROM bound b)
    FOR UPDATE OF x
), page AS MATERIALIZED (
    SELECT s.id
    FROM (SELECT o.id, sum(o.bytes) OVER (ORDER BY o.id) * b.triggers AS bytes, row_number() OVER (ORDER BY o.id) AS place
          FROM oldest o
          CROSS JOIN bound b) s
    WHERE s.bytes <= $7::bigint OR s.place = 1
), progress AS MATERIALIZED (
    SELECT (SELECT count(*) FROM oldest) < b.stimuli
           AND (SELECT count(*) FROM page) = (SELECT count(*) FROM oldest) AS is_done
    FROM bound b
), taken AS (
    DELETE FROM inbox x
    WHERE x.id = ANY (ARRAY(SELECT p.id FROM page p))
    RETURNING x.id, x.payload, x.correlation_id
), triggered AS MATERIALIZED (
    SELECT x.id, substr(encode(sha256(convert_to('inbox|' || x.id || '|' || $2 || '|' || s.activity_id, 'UTF8')), 'hex'),
                        1, 32) AS instance_id,
           s.activity_id, x.payload, x.correlation_id, s.definition_id, s.version_id, s.version, s.activation_strategy,
           CASE WHEN s.activation_strategy > 0 /* always */
               THEN activation_key(s.activation_strategy, s.definition_id, x.correlation_id) END AS held,
           CASE WHEN s.activation_strategy > 0 /* always */
               THEN activation_blocked($1, s.activation_strategy, s.definition_id, x.correlation_id)
                ELSE false END AS blocked
    FROM taken x
    CROSS JOIN source s
), activated AS (
    INSERT INTO activation (tenant_id, key, instance_id, exclusive, strategy, definition_id, correlation_id)
    SELECT $1, g.held, g.instance_id, true, g.activation_strategy, g.definition_id, nullif(g.correlation_id, '')
    FROM triggered g
    WHERE g.held IS NOT NULL AND NOT g.blocked
    ORDER BY g.held, g.id, g.activity_id
    ON CONFLICT DO NOTHING
    RETURNING instance_id
), started AS (
    INSERT INTO work (tenant_id, instance_id, kind, definition_id, version_id, definition_version, body)
    SELECT $1, g.instance_id, 0 /* start */, g.definition_id, g.version_id, g.version,
           json_build_object('triggerActivityId', g.activity_id, 'payload', g.payload,
                             'correlationId', g.correlation_id)
    FROM triggered g
    WHERE g.held IS NULL OR EXISTS (SELECT 1 FROM activated a WHERE a.instance_id = g.instance_id)
    ORDER BY g.id, g.activity_id
    RETURNING 1
), moved AS (
    UPDATE inbox_match m SET cursor = (SELECT max(p.id) FROM page p)
    WHERE m.tenant_id = $1 AND m.definition_id = $2 AND m.hash = $3 AND NOT (SELECT p.is_done FROM progress p)
), ended AS (
    DELETE FROM inbox_match m
    WHERE m.tenant_id = $1 AND m.definition_id = $2 AND m.hash = $3 AND (SELECT p.is_done FROM progress p)
)
SELECT (SELECT count(*) FROM started) AS started,
       (SELECT count(*) FROM triggered) - (SELECT count(*) FROM started) AS refused
