-- The trunk: definitions, instances, what they wait for, what is to be done, who does it, and what was done.
-- Everything stands in one schema, found through search_path; tenant_id leads every key.
-- There are no foreign keys: hot tables pay for them on every commit, and `mainspring check` proves what they would.

-- Who we are ------------------------------------------------------------------------------------------------------

-- Logged, so that no incarnation is used twice, even after a crash of the server.
CREATE SEQUENCE incarnation;

-- Unlogged: a check-in costs no WAL. After a crash of the server both are empty, and every node registers anew.
CREATE UNLOGGED TABLE node (
    incarnation bigint PRIMARY KEY,
    node_id text NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_seen timestamptz NOT NULL DEFAULT clock_timestamp(),
    tolerance interval NOT NULL,
    postmaster_started_at timestamptz NOT NULL DEFAULT pg_postmaster_start_time()
) WITH (fillfactor = 50);

-- One row per commit writer, so that no row ever has two lockers at once (that would make multixacts).
CREATE UNLOGGED TABLE fence (
    incarnation bigint NOT NULL,
    writer smallint NOT NULL,
    PRIMARY KEY (incarnation, writer)
);

-- An incarnation that was declared dead and whose claims are still being released.
CREATE TABLE departed (
    incarnation bigint PRIMARY KEY,
    node_id text NOT NULL,
    crashed boolean NOT NULL,
    departed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- What runs -------------------------------------------------------------------------------------------------------

CREATE TABLE definition (
    tenant_id text NOT NULL,
    version_id text NOT NULL,
    definition_id text NOT NULL,
    version integer NOT NULL CHECK (version > 0),
    name text,
    description text,
    is_latest boolean NOT NULL,
    is_published boolean NOT NULL,
    -- Once published, the body never changes again: instances run on it.
    was_published boolean NOT NULL DEFAULT false,
    is_readonly boolean NOT NULL DEFAULT false,
    is_system boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now(),
    body json NOT NULL,
    PRIMARY KEY (tenant_id, version_id),
    UNIQUE (tenant_id, definition_id, version),
    CHECK (was_published OR NOT is_published)
);
CREATE UNIQUE INDEX definition_latest ON definition (tenant_id, definition_id) WHERE is_latest;
CREATE UNIQUE INDEX definition_published ON definition (tenant_id, definition_id) WHERE is_published;

-- Grows in the transaction of each publish; a sequence would show 2 before 1 is committed.
CREATE TABLE revision (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    revision bigint NOT NULL
);
INSERT INTO revision (revision) VALUES (0);

CREATE TABLE trigger (
    tenant_id text NOT NULL,
    definition_id text NOT NULL,
    activity_id text NOT NULL,
    hash bytea NOT NULL,
    name text NOT NULL,
    payload json NOT NULL,
    PRIMARY KEY (tenant_id, definition_id, activity_id, hash)
);
CREATE INDEX trigger_hash ON trigger (tenant_id, hash);

-- Instances -------------------------------------------------------------------------------------------------------

-- The narrow hot row. No index on a column that each burst changes, so that every commit is a HOT update.
CREATE TABLE instance (
    tenant_id text NOT NULL,
    id text NOT NULL,
    definition_id text NOT NULL,
    version_id text NOT NULL,
    definition_version integer NOT NULL,
    -- 0 running, 1 finished
    status smallint NOT NULL,
    -- 0 pending, 1 executing, 2 suspended, 3 finished, 4 cancelled, 5 faulted
    sub_status smallint NOT NULL,
    -- Grows with each transaction that writes a row of the instance: the instance fence.
    version bigint NOT NULL,
    last_burst uuid,
    correlation_id text,
    name text,
    incident_count integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    PRIMARY KEY (tenant_id, id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX instance_by_time ON instance (tenant_id, created_at);
CREATE INDEX instance_by_definition ON instance (tenant_id, definition_id, created_at);

CREATE TABLE instance_state (
    tenant_id text NOT NULL,
    id text NOT NULL,
    state bytea NOT NULL,
    PRIMARY KEY (tenant_id, id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE bookmark (
    tenant_id text NOT NULL,
    instance_id text NOT NULL,
    id text NOT NULL,
    activity_id text NOT NULL,
    node_id text NOT NULL,
    activity_execution_id text NOT NULL,
    name text NOT NULL,
    hash bytea NOT NULL,
    payload json NOT NULL,
    -- Can be met by a published stimulus; false for what only a timer ends.
    publishable boolean NOT NULL,
    correlation_id text,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, instance_id, id)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX bookmark_hash ON bookmark (tenant_id, hash) WHERE publishable;

-- What is to be done ----------------------------------------------------------------------------------------------

CREATE TABLE work (
    tenant_id text NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    instance_id text NOT NULL,
    -- 0 start, 1 resume, 2 stimulus, 3 cancel, 4 continue
    kind smallint NOT NULL,
    -- Of a start: the version that was published when it was accepted.
    definition_id text,
    version_id text,
    definition_version integer,
    body json NOT NULL,
    available_at timestamptz NOT NULL DEFAULT now(),
    created_at timestamptz NOT NULL DEFAULT now(),
    claimed_by bigint,
    -- Counts claims: the claim fence.
    claim_no bigint NOT NULL DEFAULT 0,
    -- Errors, for the back-off.
    failures integer NOT NULL DEFAULT 0,
    -- Deaths of the process that had claimed it, while the server lived on.
    crashes integer NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX work_ready ON work (available_at, id) WHERE claimed_by IS NULL;
CREATE INDEX work_claimed ON work (claimed_by) WHERE claimed_by IS NOT NULL;
CREATE INDEX work_instance ON work (tenant_id, instance_id, id);
CREATE UNIQUE INDEX work_start ON work (tenant_id, instance_id) WHERE kind = 0;

-- The row of a delay is its own claim: the burst that it wakes deletes it in its commit.
CREATE TABLE timer (
    tenant_id text NOT NULL,
    instance_id text NOT NULL,
    -- The bookmark that it ends.
    id text NOT NULL,
    due timestamptz NOT NULL,
    available_at timestamptz NOT NULL,
    claimed_by bigint,
    claim_no bigint NOT NULL DEFAULT 0,
    failures integer NOT NULL DEFAULT 0,
    crashes integer NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, instance_id, id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX timer_due ON timer (available_at) WHERE claimed_by IS NULL;
CREATE INDEX timer_claimed ON timer (claimed_by) WHERE claimed_by IS NOT NULL;

-- Stimuli that nothing waited for yet.
CREATE TABLE inbox (
    tenant_id text NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    hash bytea NOT NULL,
    name text NOT NULL,
    payload json,
    -- Null means any.
    correlation_id text,
    instance_id text,
    activity_execution_id text,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX inbox_hash ON inbox (tenant_id, hash, id);
CREATE INDEX inbox_expiry ON inbox (expires_at);

-- One row per event, and per request that carried an idempotency key.
CREATE TABLE request (
    tenant_id text NOT NULL,
    route text NOT NULL,
    key text NOT NULL,
    fingerprint bytea NOT NULL,
    instance_id text,
    answer json,
    expires_at timestamptz NOT NULL DEFAULT now() + interval '24 hours',
    PRIMARY KEY (tenant_id, route, key)
);
CREATE INDEX request_expiry ON request (expires_at);

-- What was done ---------------------------------------------------------------------------------------------------

-- Append-only, partitioned by the commit's now(), never by a node's clock.
CREATE TABLE journal (
    tenant_id text NOT NULL,
    instance_id text NOT NULL,
    sequence bigint NOT NULL,
    at timestamptz NOT NULL,
    version bigint NOT NULL,
    happened_at timestamptz NOT NULL,
    event_name text NOT NULL,
    activity_execution_id text NOT NULL,
    parent_activity_execution_id text,
    activity_id text NOT NULL,
    activity_type text NOT NULL,
    activity_type_version integer NOT NULL,
    activity_name text,
    node_id text NOT NULL,
    message text,
    source text,
    activity_state json,
    payload json,
    PRIMARY KEY (tenant_id, instance_id, sequence, at)
) PARTITION BY RANGE (at);

-- One row per commit that touched the execution; the newest version of an id is its present state.
CREATE TABLE activity_execution (
    tenant_id text NOT NULL,
    instance_id text NOT NULL,
    id text NOT NULL,
    version bigint NOT NULL,
    at timestamptz NOT NULL,
    parent_activity_execution_id text,
    activity_id text NOT NULL,
    node_id text NOT NULL,
    activity_type text NOT NULL,
    activity_type_version integer NOT NULL,
    activity_name text,
    status text NOT NULL,
    -- Null: in an earlier commit.
    started_at timestamptz,
    completed_at timestamptz,
    activity_state json,
    outputs json,
    payload json,
    properties json,
    exception json,
    has_bookmarks boolean NOT NULL,
    fault_count integer NOT NULL,
    PRIMARY KEY (tenant_id, instance_id, id, version, at)
) PARTITION BY RANGE (at);

-- Makes the partitions of today and the days ahead, by CREATE and ATTACH, so that readers are not stopped.
-- Any number of nodes may call it at once.
CREATE FUNCTION ensure_partitions(days_ahead integer) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    parent text;
    first_day date := (now() AT TIME ZONE 'UTC')::date;
    day date;
    partition text;
    made integer := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext(current_schema()), hashtext('partitions'));
    FOREACH parent IN ARRAY ARRAY['journal', 'activity_execution'] LOOP
        FOR ahead IN 0..days_ahead LOOP
            day := first_day + ahead;
            partition := parent || '_' || to_char(day, 'YYYYMMDD');
            IF to_regclass(quote_ident(current_schema()) || '.' || quote_ident(partition)) IS NULL THEN
                EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', partition, parent);
                EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, partition,
                    day::timestamp AT TIME ZONE 'UTC', (day + 1)::timestamp AT TIME ZONE 'UTC');
                made := made + 1;
            END IF;
        END LOOP;
    END LOOP;
    RETURN made;
END $$;

-- The commit contract ---------------------------------------------------------------------------------------------

-- A batch travels as arrays of these; `no` is the request's place in the batch.
CREATE TYPE commit_request AS (
    no integer,
    tenant_id text,
    instance_id text,
    -- The version that was loaded; 0 for a new instance.
    expected bigint,
    burst uuid,
    -- How many claims it was born of.
    claims integer,
    definition_id text,
    version_id text,
    definition_version integer,
    status smallint,
    sub_status smallint,
    correlation_id text,
    name text,
    incident_count integer,
    state bytea,
    -- Microseconds from the burst's begin to its end.
    elapsed bigint
);
CREATE TYPE commit_claim AS (no integer, work_id bigint, timer_id text, claim_no bigint);
CREATE TYPE commit_bookmark AS (
    no integer,
    id text,
    activity_id text,
    node_id text,
    activity_execution_id text,
    name text,
    hash bytea,
    payload json,
    publishable boolean,
    -- Microseconds after the commit's now() at which a timer ends it; null for none.
    delay bigint
);
CREATE TYPE commit_burned AS (no integer, id text);
CREATE TYPE commit_stimulus AS (no integer, hash bytea, name text, payload json, lifetime bigint);
CREATE TYPE commit_journal AS (
    no integer,
    sequence bigint,
    -- Microseconds since the burst began.
    at bigint,
    event_name text,
    activity_execution_id text,
    parent_activity_execution_id text,
    activity_id text,
    activity_type text,
    activity_type_version integer,
    activity_name text,
    node_id text,
    message text,
    source text,
    activity_state json,
    payload json
);
CREATE TYPE commit_execution AS (
    no integer,
    id text,
    parent_activity_execution_id text,
    activity_id text,
    node_id text,
    activity_type text,
    activity_type_version integer,
    activity_name text,
    status text,
    started bigint,
    completed bigint,
    activity_state json,
    outputs json,
    payload json,
    properties json,
    exception json,
    has_bookmarks boolean,
    fault_count integer
);
-- A stimulus key that a request needs; the lock statement before may have missed it.
CREATE TYPE commit_key AS (no integer, key integer);

-- Gives the bookmarks that a commit has just written to what waits for them in the inbox: each bookmark takes at most
-- one stimulus, the oldest that fits, and each stimulus goes to one bookmark. Called in the commit's transaction, in a
-- statement of its own after the stimulus keys were locked.
CREATE FUNCTION match_inbox(tenants text[], instances text[], bookmarks text[]) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    waiting record;
    found_id bigint;
    found_payload json;
    matched integer := 0;
BEGIN
    -- Whoever else matches the same stimuli takes their rows in the same order.
    PERFORM 1
    FROM inbox x
    WHERE EXISTS (SELECT 1 FROM unnest(tenants, instances, bookmarks) AS n(tenant_id, instance_id, id)
                  JOIN bookmark b ON b.tenant_id = n.tenant_id AND b.instance_id = n.instance_id AND b.id = n.id
                  WHERE b.publishable AND b.xmin = pg_current_xact_id()::xid
                    AND b.tenant_id = x.tenant_id AND b.hash = x.hash)
    ORDER BY x.tenant_id, x.id
    FOR UPDATE OF x;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    FOR waiting IN
        SELECT b.tenant_id, b.instance_id, b.id, b.hash, b.name, b.activity_execution_id, i.correlation_id
        FROM unnest(tenants, instances, bookmarks) AS n(tenant_id, instance_id, id)
        JOIN bookmark b ON b.tenant_id = n.tenant_id AND b.instance_id = n.instance_id AND b.id = n.id
        JOIN instance i ON i.tenant_id = b.tenant_id AND i.id = b.instance_id
        WHERE b.publishable
          -- Written by this very transaction: a request that lost, or was sent again, has made no bookmark.
          AND b.xmin = pg_current_xact_id()::xid
          AND EXISTS (SELECT 1 FROM inbox x WHERE x.tenant_id = b.tenant_id AND x.hash = b.hash)
        ORDER BY b.hash, b.instance_id, b.id
    LOOP
        SELECT x.id, x.payload INTO found_id, found_payload
        FROM inbox x
        WHERE x.tenant_id = waiting.tenant_id AND x.hash = waiting.hash AND x.expires_at > now()
          AND (x.instance_id IS NULL OR x.instance_id = waiting.instance_id)
          AND (x.correlation_id IS NULL OR x.correlation_id = waiting.correlation_id)
          AND (x.activity_execution_id IS NULL OR x.activity_execution_id = waiting.activity_execution_id)
        ORDER BY x.id
        LIMIT 1
        FOR UPDATE;
        IF FOUND THEN
            DELETE FROM inbox x WHERE x.tenant_id = waiting.tenant_id AND x.id = found_id;
            INSERT INTO work (tenant_id, instance_id, kind, body)
            VALUES (waiting.tenant_id, waiting.instance_id, 2, json_build_object(
                'bookmarkId', waiting.id, 'hash', encode(waiting.hash, 'hex'), 'name', waiting.name,
                'payload', found_payload));
            matched := matched + 1;
        END IF;
    END LOOP;
    RETURN matched;
END $$;

-- A start on its way in; see start/accept.sql.
CREATE TYPE accept_start AS (
    no integer,
    tenant_id text,
    instance_id text,
    definition_id text,
    body json,
    -- Idempotency: the route, the client's key and the request's fingerprint; null without a key.
    route text,
    key text,
    fingerprint bytea
);

-- Take-over -------------------------------------------------------------------------------------------------------

-- Ends the sessions of an incarnation that was declared dead, or that missed its check-in; nobody else's. Runs with
-- the rights of the schema's owner, so that it also works after a change of credentials.
CREATE FUNCTION terminate_incarnation(dead bigint) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    prefix text := 'mainspring/' || substr(encode(sha256(convert_to(current_schema(), 'UTF8')), 'hex'), 1, 8)
        || '/' || dead || '/';
    ended integer;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM departed d WHERE d.incarnation = dead)
       AND NOT EXISTS (SELECT 1 FROM node n WHERE n.incarnation = dead
                       AND n.last_seen < clock_timestamp() - n.tolerance) THEN
        RETURN 0;
    END IF;
    SELECT count(pg_terminate_backend(a.pid)) INTO ended
    FROM pg_stat_activity a
    WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
      AND starts_with(a.application_name, prefix);
    RETURN ended;
END $$;
REVOKE ALL ON FUNCTION terminate_incarnation(bigint) FROM PUBLIC;
