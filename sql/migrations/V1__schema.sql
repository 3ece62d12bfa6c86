-- The data model, table by table.
--
-- Nodes
--   node               the registered nodes; one row per incarnation (one run of a process)
--   fence              the right of a commit writer to write; deleted when its node is removed
--   removed_node       nodes that are being removed: their claims are still being released
--   crash              processes that crashed within the last hour
--   cluster_job        what the cluster does once per period, on any node
--   cluster_sample     one row: numbers of the whole database, which one node samples and all serve
--   cluster_second     what is cheap to know of each second of the last hour
--   lock_report        what locks each node holds, on request
--   cluster_pause      one row: whether the cluster runs, is paused or drains
-- Definitions
--   definition         the versions of each workflow definition, with their JSON
--   definition_reference  what each version uses as activities
--   purged_version     the ids of versions that are gone, which no import takes again
--   revision           one counter; grows with each publish, so that every node notices it
--   trigger            the stimuli that start a published definition
--   schedule           the timers, cron expressions and points in time that start a published definition
-- Instances
--   instance           the state of each workflow instance
--   bookmark           what an instance waits for
--   bookmark_route     the templates of HTTP endpoints at which instances wait
--   child              living instances that activities of other instances have started
--   burst_record       what each burst did: journal entries and activity executions, partitioned by day
--   journal            view: one row per journal entry
--   activity_execution view: one row per burst that touched an activity execution
-- Queues
--   work               instructions for instances: start, resume, stimulus, cancel, continue, child end
--   timer              delays of instances; each ends one bookmark
--   fan_out            events that many instances wait for, given to them page by page
--   fan_out_owed       bookmarks that ended after the turn of such an event and before their page
--   bulk_action        cancels and deletes of many instances, page by page
--   inbox              stimuli that no bookmark and no trigger waited for yet
--   inbox_match        published triggers whose stimuli in the inbox are not all started yet
--   dead_letter        rows of work, timers and stimuli that are not tried again
--   unmatched_work     rows of work that ended without an effect, for callers that ask for the result
--   idempotency_key    keys of requests that were accepted
--   http_answer        how requests of HTTP clients have ended, for clients that repeat them or wait at another node
-- Webhooks
--   webhook_sink       the receivers of events, each with its secret and the node that sends to it
--   webhook_delivery   one event for one sink: to be sent, delivered, or given up
-- Activation
--   activation         the activation keys that starts and running instances hold
-- Identity
--   identity_user      who may sign in, with the ids of their roles and the hash of their password
--   identity_role      named sets of permissions
--   identity_application  programs with an API key, of which the hash is kept
--   identity_session   one sign-in of a user: which refresh token is good for it
--   login_attempt      how often sign-ins have failed, by name and by client
-- Secrets
--   token_key          the keys that sign resume links and tokens
--   channel_secret     keys the names of notification channels
-- Links
--   resume_link        what people and systems resume bookmarks and trigger events by, without a key
--   audit              each request that changes something, login and attempt at a resume link
-- Views for people and reports (docs/reference/views.md), whose columns stay
--   nodes, instances, locks, timers, queue
--
-- Rules
--   All objects are in one schema, which search_path names.
--   There are no foreign keys: each commit would pay for them. `mainspring check` proves the same.
--   Columns of ids and keys have the collation C: their order and their uniqueness are those of bytes in every database, also
--   after an upgrade of the system's locales.
--   Times are those of the database's clock. Durations in arguments and types are microseconds.
--   Numbers of kinds and states are those of the enums in src/store; each literal carries its name in a comment.
--   No index of a growing table begins with tenant_id. A plan that is made while a table has no statistics takes any
--   index whose first column is given to be selective, and a cached plan keeps it.
--   No index of a table that is often empty has a further column by which rows are looked up through another index:
--   after a vacuum of an empty table the planner holds a walk over the whole index to be as cheap as a lookup.

-- ===================================================================================================================
-- Nodes
-- ===================================================================================================================

-- Logged, so that no incarnation is used twice, even after a crash of the server.
CREATE SEQUENCE incarnation;

-- Unlogged: a check-in costs no WAL. After a crash of the server the table is empty, and every node registers again.
CREATE UNLOGGED TABLE node (
    incarnation bigint PRIMARY KEY,
    -- The name of the node; a restarted node keeps it.
    node_id text COLLATE "C" NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The last check-in.
    last_seen timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The node is expired when its last check-in is older than this.
    tolerance interval NOT NULL,
    -- Distinguishes a crash of the process from a crash of the server.
    postmaster_started_at timestamptz NOT NULL DEFAULT pg_postmaster_start_time(),
    -- The node is about to stop: it claims nothing new.
    draining boolean NOT NULL DEFAULT false,
    -- The node hangs, as its watchdog found: its end is no crash, but of the rows for which it has counted one itself.
    hung boolean NOT NULL DEFAULT false,
    -- Activity types that published versions use and that the node does not know.
    missing_activity_types text[] NOT NULL DEFAULT '{}',
    roles text[] NOT NULL DEFAULT '{api,worker,scheduler}',
    -- What keeps the locks of instances for the node; empty: its provider does not tell, and it is not compared.
    lock_domain text NOT NULL DEFAULT '',
    -- What carries its cache notifications and its wake notifications; empty: likewise.
    signal_domain text NOT NULL DEFAULT '',
    wake_domain text NOT NULL DEFAULT '',
    -- Digests of the settings that decide who may do what, each as name=digest; null until the node has recorded them.
    identity_settings text[],
    -- The term of the leader that fires schedules, where one is elected; null: not the leader.
    scheduler_term bigint,
    -- What `mainspring doctor` compares: {version, connections, workers, checkInMs, settings: {name: value}}; null until the node
    -- has recorded it.
    facts json,
    -- By how much the node's own clock was ahead of the database's at its last check-in. Nothing is decided by it.
    clock_ahead interval
) WITH (fillfactor = 50);

-- A commit holds its row with FOR KEY SHARE, and the removal of the node deletes it. One row per commit writer, so
-- that no row has two lockers at once (that would make multixacts).
CREATE UNLOGGED TABLE fence (
    incarnation bigint NOT NULL,
    writer smallint NOT NULL,
    PRIMARY KEY (incarnation, writer)
);

-- Deleted as the last step of a removal, so that another node finishes one that was interrupted.
CREATE TABLE removed_node (
    incarnation bigint PRIMARY KEY,
    node_id text COLLATE "C" NOT NULL,
    -- The process crashed while the server went on, and did not hang before; its claims count a crash.
    crashed boolean NOT NULL,
    removed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The node had claimed an isolated row (crashes >= 2): that row alone counts the crash.
    had_isolated boolean NOT NULL DEFAULT false
);

-- A row at its third crash is dead-lettered at once only if no other process crashed within ten minutes.
CREATE TABLE crash (
    incarnation bigint PRIMARY KEY,
    crashed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The node that moves next_run_at forward runs the job. A job whose next run is more than two periods ahead is due,
-- too: it was planned before the server's clock was stepped back.
CREATE TABLE cluster_job (
    name text PRIMARY KEY,
    next_run_at timestamptz NOT NULL DEFAULT now(),
    -- The incarnation that ran it last; for operators.
    last_run_by bigint,
    -- From one run to the next, as of the last run.
    period interval NOT NULL DEFAULT '1 hour'
) WITH (fillfactor = 50);
INSERT INTO cluster_job (name)
VALUES ('release-orphaned'), ('purge-expired'), ('create-partitions'), ('report-unsupported'),
       ('purge-definitions'), ('sample-cluster');

-- Unlogged: the next sample comes in 15 s.
CREATE UNLOGGED TABLE cluster_sample (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    sampled_at timestamptz NOT NULL,
    -- How long the sample took.
    took interval NOT NULL,
    -- Numbers by the name of their metric without its prefix, or by `name/label`.
    body jsonb NOT NULL
) WITH (fillfactor = 50);

-- A ring: the slot is the second within its hour, so the table never has more rows. Counts end at 1,000.
CREATE UNLOGGED TABLE cluster_second (
    slot smallint PRIMARY KEY CHECK (slot BETWEEN 0 AND 3599),
    at timestamptz NOT NULL,
    -- Those that check in.
    nodes integer NOT NULL,
    -- Rows of work that are due and unclaimed, those that are claimed, and how long the oldest of the first has been due.
    work_ready integer NOT NULL,
    work_claimed integer NOT NULL,
    oldest_work interval NOT NULL,
    timers_due integer NOT NULL,
    -- Counters of the server: instances that began, records of bursts, and transactions of the whole server that wrote. They
    -- begin again when its statistics are lost.
    instances_inserted bigint NOT NULL,
    bursts_inserted bigint NOT NULL,
    transactions bigint NOT NULL
) WITH (fillfactor = 50);

-- Names of locks, and what waits for them, are known to the process alone. Unlogged: worthless a moment later.
CREATE UNLOGGED TABLE lock_report (
    incarnation bigint PRIMARY KEY,
    at timestamptz NOT NULL,
    locks json NOT NULL
) WITH (fillfactor = 50);

-- Every statement that accepts or claims reads it: what takes its snapshot after the pause is committed does neither.
CREATE TABLE cluster_pause (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    -- 0 running; 1 paused: nothing is accepted or claimed; 2 draining: bursts stop before their next activity, too.
    mode smallint NOT NULL DEFAULT 0 /* running */ CHECK (mode BETWEEN 0 AND 2),
    -- Grows with each change.
    generation bigint NOT NULL DEFAULT 0,
    paused_at timestamptz,
    drain_started_at timestamptz,
    -- Of the pause, and the client that requested the last change.
    reason text,
    requested_by text
) WITH (fillfactor = 50);
INSERT INTO cluster_pause DEFAULT VALUES;

-- Raises a sequence, and never lowers it: ALTER waits for all transactions that have drawn from it, and none draws until this
-- one ends. False: it was there already.
CREATE FUNCTION raise_sequence(sequence text, reached bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    drawn bigint;
BEGIN
    EXECUTE format('ALTER SEQUENCE %I NO CYCLE', sequence);
    EXECUTE format('SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM %I', sequence) INTO drawn;
    IF drawn >= reached THEN
        RETURN false;
    END IF;
    PERFORM setval(format('%I', sequence)::regclass, reached);
    RETURN true;
END $$;

-- Fails a statement that accepts a request; MSP01 is the class of its error.
CREATE FUNCTION raise_paused(reason text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%', coalesce(reason, '') USING ERRCODE = 'MSP01';
END $$;

-- Waits until a lock is free, at most timeout_ms milliseconds; false: timed out. The lock ends with the statement.
-- The wait is bounded because a waiting statement holds back the vacuum of the whole database.
CREATE FUNCTION wait_for_lock(key bigint, timeout_ms integer) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('lock_timeout', timeout_ms::text, true);
    PERFORM pg_advisory_xact_lock(key);
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END $$;

-- Whether a connection of an incarnation is idle. A process that has ended leaves none; a process that lost only its lock
-- session still has others. Null: there are sessions, and the owner of the schema may not see their state. Runs as
-- the owner, because a node with a role of its own may not see the sessions of other roles.
CREATE FUNCTION has_idle_session(incarnation bigint) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT CASE WHEN bool_or(a.state = 'idle') THEN true
                WHEN bool_or(a.state IS NULL OR a.state = 'disabled') THEN NULL
                ELSE false END
    FROM pg_stat_activity a
    WHERE a.datname = current_database()
      AND starts_with(a.application_name,
                      'mainspring/' || substr(encode(sha256(convert_to(current_schema(), 'UTF8')), 'hex'), 1, 8)
                          || '/' || incarnation || '/')
$$;

-- Terminates the sessions of an incarnation that is being removed or whose check-in expired; never those of another.
-- A check-in further ahead than the tolerance was made before the clock was stepped back. Runs as the owner of the
-- schema, so that it works after a change of credentials, too.
CREATE FUNCTION terminate_incarnation(expired bigint) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    prefix text := 'mainspring/' || substr(encode(sha256(convert_to(current_schema(), 'UTF8')), 'hex'), 1, 8)
        || '/' || expired || '/';
    ended integer;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM removed_node d WHERE d.incarnation = expired)
       AND NOT EXISTS (SELECT 1 FROM node n WHERE n.incarnation = expired
                       AND (n.last_seen < clock_timestamp() - n.tolerance
                            OR n.last_seen > clock_timestamp() + n.tolerance)) THEN
        RETURN 0;
    END IF;
    SELECT count(pg_terminate_backend(a.pid)) INTO ended
    FROM pg_stat_activity a
    WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
      AND starts_with(a.application_name, prefix);
    RETURN ended;
END $$;
REVOKE ALL ON FUNCTION terminate_incarnation(bigint) FROM PUBLIC;

-- ===================================================================================================================
-- Definitions
-- ===================================================================================================================

CREATE TABLE definition (
    tenant_id text COLLATE "C" NOT NULL,
    version_id text COLLATE "C" NOT NULL,
    definition_id text COLLATE "C" NOT NULL,
    version integer NOT NULL CHECK (version > 0),
    name text,
    description text,
    is_latest boolean NOT NULL,
    is_published boolean NOT NULL,
    -- Once published, the body never changes again: instances run on it.
    was_published boolean NOT NULL DEFAULT false,
    -- Started as a draft: this body never changes again, either. A save replaces the row by one with another id.
    was_started boolean NOT NULL DEFAULT false,
    is_readonly boolean NOT NULL DEFAULT false,
    is_system boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- The JSON as it was sent.
    body json NOT NULL,
    -- For lists, which read no body.
    tool_version text GENERATED ALWAYS AS (left(body ->> 'toolVersion', 64)) STORED,
    -- The activation strategy: 0 always, 1 singleton, 2 correlated singleton, 3 correlation. Set by the publish.
    activation_strategy smallint NOT NULL DEFAULT 0 /* always */ CHECK (activation_strategy BETWEEN 0 AND 3),
    -- What is left to do after the strategy changed: 2 seed, add keys of instances that started before (starts are
    -- refused as busy until then); 1 prune, delete keys of instances that ended meanwhile; 0 done.
    seeding smallint NOT NULL DEFAULT 0 /* done */ CHECK (seeding BETWEEN 0 AND 2),
    -- All activity types of a version that was ever published or started; null: no node that knows them all has read it yet.
    activity_types text[],
    -- Deleted, or replaced after it was started as a draft: it can be read by its id while an instance runs or ran on
    -- it, and cannot be started. Then it is purged.
    deleted_at timestamptz,
    -- The activity type that it is, if other definitions can use it as an activity.
    activity_type text COLLATE "C",
    PRIMARY KEY (tenant_id, version_id),
    CHECK (was_published OR NOT is_published),
    CHECK (deleted_at IS NULL OR NOT (is_latest OR is_published))
);
CREATE UNIQUE INDEX definition_version ON definition (tenant_id, definition_id, version) WHERE deleted_at IS NULL;
CREATE INDEX definition_deleted ON definition (tenant_id, version_id) WHERE deleted_at IS NOT NULL;
CREATE UNIQUE INDEX definition_latest ON definition (tenant_id, definition_id) WHERE is_latest;
CREATE UNIQUE INDEX definition_published ON definition (tenant_id, definition_id) WHERE is_published;
CREATE INDEX definition_seeding ON definition (tenant_id, definition_id) WHERE is_published AND seeding > 0 /* done */;
-- Whether any published definition compares correlation ids across definitions.
CREATE INDEX definition_correlation ON definition (tenant_id)
    WHERE is_published AND activation_strategy = 3 /* correlation */;
CREATE INDEX definition_without_activity_types ON definition (tenant_id, version_id)
    WHERE (was_published OR was_started) AND activity_types IS NULL;

CREATE INDEX definition_activity_type ON definition (activity_type, tenant_id)
    WHERE activity_type IS NOT NULL AND deleted_at IS NULL;

-- The definitions that a version uses as activities, as its activities name them. Kept until the version is purged.
CREATE TABLE definition_reference (
    tenant_id text COLLATE "C" NOT NULL,
    version_id text COLLATE "C" NOT NULL,
    definition_id text COLLATE "C" NOT NULL,
    -- The type of the activity, which names the definition where there is none with that id.
    type_name text COLLATE "C" NOT NULL,
    -- Empty: by number.
    wanted_version_id text COLLATE "C" NOT NULL,
    wanted_version integer NOT NULL,
    used_definition_id text COLLATE "C" NOT NULL,
    -- What it means for ever, from the publish of the version or the start of its draft; null before.
    used_version_id text COLLATE "C",
    PRIMARY KEY (version_id, definition_id, type_name, wanted_version_id, wanted_version, tenant_id)
);
CREATE INDEX definition_reference_used ON definition_reference (used_definition_id, tenant_id);
CREATE INDEX definition_reference_version ON definition_reference (used_version_id, tenant_id)
    WHERE used_version_id IS NOT NULL;

-- Nodes keep what they have compiled by the id of the version, so an id that was published or started means one body for ever.
CREATE TABLE purged_version (
    tenant_id text COLLATE "C" NOT NULL,
    version_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (version_id, tenant_id)
);

-- A row and no sequence: it grows in the transaction of the publish, and a sequence would show 2 before 1 is
-- committed.
CREATE TABLE revision (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    revision bigint NOT NULL,
    -- The same of webhook_sink: grows with each change of what a sink wants, and of where and how it is sent to.
    webhooks bigint NOT NULL DEFAULT 0,
    -- The same of users, roles and applications, and of sessions that were ended: what nodes remember of callers is good for one.
    identity bigint NOT NULL DEFAULT 0,
    -- There ever was a user or an application.
    has_callers boolean NOT NULL DEFAULT false
);
INSERT INTO revision (revision) VALUES (0);

-- Of the published version only; rewritten by each publish.
CREATE TABLE trigger (
    tenant_id text COLLATE "C" NOT NULL,
    definition_id text COLLATE "C" NOT NULL,
    activity_id text COLLATE "C" NOT NULL,
    -- The hash of the stimulus.
    hash bytea NOT NULL,
    name text NOT NULL,
    -- What is hashed; of an HTTP endpoint its options, with path and method.
    payload json NOT NULL,
    -- That of the publish: a node reads the routes that are newer than what it knows.
    revision bigint NOT NULL DEFAULT 0,
    -- What the compiled regular expressions of its route take, at most.
    pattern_bytes integer NOT NULL DEFAULT 0,
    -- Of a route with constraints: a hash of its method and of its template without them. Routes with another one match no path in
    -- common.
    outline bytea,
    PRIMARY KEY (definition_id, activity_id, hash, tenant_id)
);
CREATE INDEX trigger_hash ON trigger (hash, tenant_id);
-- A route belongs to one definition.
CREATE UNIQUE INDEX trigger_route ON trigger (hash, tenant_id) WHERE name = 'Elsa.HttpEndpoint';
CREATE INDEX trigger_route_revision ON trigger (revision) INCLUDE (tenant_id) WHERE name = 'Elsa.HttpEndpoint';
CREATE INDEX trigger_patterns ON trigger (pattern_bytes) INCLUDE (tenant_id) WHERE pattern_bytes > 0;
CREATE INDEX trigger_outline ON trigger (outline, tenant_id) WHERE outline IS NOT NULL;

CREATE TABLE schedule (
    tenant_id text COLLATE "C" NOT NULL,
    -- Derived from definition and activity, so that it survives a publish.
    id text COLLATE "C" NOT NULL,
    definition_id text COLLATE "C" NOT NULL,
    activity_id text COLLATE "C" NOT NULL,
    activity_type text COLLATE "C" NOT NULL,
    -- All inputs, with their defaults.
    spec json NOT NULL,
    -- When this spec began to hold: first published, or changed since. Intervals count from here.
    anchor timestamptz NOT NULL,
    -- The time zone database that next_occurrence was computed with.
    tz_version text NOT NULL,
    -- What an occurrence does while an earlier one runs: 0 allow, 1 skip, 2 queue (one at most).
    overlap smallint NOT NULL CHECK (overlap BETWEEN 0 AND 2),
    -- Grows with each change of the row: an update by an older version is void.
    version bigint NOT NULL DEFAULT 1,
    -- The last occurrence that fired or was skipped. No occurrence at or before it is decided again.
    last_occurrence timestamptz,
    -- Null: the schedule has ended.
    next_occurrence timestamptz,
    -- next_occurrence and its jitter.
    next_fire timestamptz,
    paused boolean NOT NULL DEFAULT false,
    -- The occurrence that starts when the running instance has ended; the payload of its start.
    queued json,
    fired bigint NOT NULL DEFAULT 0,
    misfired bigint NOT NULL DEFAULT 0,
    skipped bigint NOT NULL DEFAULT 0,
    last_fired_at timestamptz,
    -- Microseconds.
    last_lateness bigint,
    -- The node that fired last.
    last_node text,
    last_instance text COLLATE "C",
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, definition_id, activity_id),
    CHECK ((next_occurrence IS NULL) = (next_fire IS NULL))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX schedule_due ON schedule (next_fire, id) WHERE next_fire IS NOT NULL AND NOT paused;
CREATE INDEX schedule_queued ON schedule (tenant_id, id) WHERE queued IS NOT NULL AND NOT paused;

-- The activation key of an instance that must not run beside another one of its schedule; its strategy there is 0.
CREATE FUNCTION schedule_key(schedule text) RETURNS bytea
LANGUAGE sql IMMUTABLE AS $$ SELECT sha256(convert_to('schedule|' || schedule, 'UTF8')) $$;

-- Argument of schedule/plan.sql: what a publish makes of a schedule.
CREATE TYPE schedule_plan AS (
    id text COLLATE "C",
    activity_id text COLLATE "C",
    activity_type text COLLATE "C",
    spec json,
    overlap smallint,
    anchor timestamptz,
    tz_version text,
    next_occurrence timestamptz,
    next_fire timestamptz
);

-- Argument of schedule/fire.sql: what firing makes of a schedule that is still at this version.
CREATE TYPE schedule_firing AS (
    no integer,
    tenant_id text COLLATE "C",
    id text COLLATE "C",
    version bigint,
    tz_version text,
    last_occurrence timestamptz,
    next_occurrence timestamptz,
    next_fire timestamptz,
    queued json,
    misfired bigint,
    skipped bigint,
    -- Of the last occurrence that fires.
    lateness bigint
);

-- Argument of schedule/fire.sql: an instance that a firing starts. `delay`: until it may be claimed.
CREATE TYPE schedule_start AS (no integer, instance_id text COLLATE "C", activity_id text COLLATE "C", payload json, delay bigint);

-- ===================================================================================================================
-- Instances
-- ===================================================================================================================

-- No index has a column that each burst changes, so that every commit is a HOT update. The state is in the row: a row
-- of its own would be a second search and a second write in each commit. A state of more than two kilobytes is
-- toasted.
CREATE TABLE instance (
    tenant_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    definition_id text COLLATE "C" NOT NULL,
    version_id text COLLATE "C" NOT NULL,
    definition_version integer NOT NULL,
    -- 0 running, 1 finished
    status smallint NOT NULL,
    -- 0 pending, 1 executing, 2 suspended, 3 finished, 4 cancelled, 5 faulted
    sub_status smallint NOT NULL,
    -- Grows with each transaction that writes a row of the instance: the fencing token of the instance.
    version bigint NOT NULL,
    -- The burst of the last commit: shows a node whether a commit in doubt was its own.
    last_burst uuid,
    correlation_id text,
    name text,
    incident_count integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    -- The instance whose activity started this one; null: none did.
    parent_instance_id text COLLATE "C",
    -- JSON without the ids, the version and the two statuses, which are columns; see whole_state.
    state bytea NOT NULL,
    PRIMARY KEY (id, tenant_id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0,
        -- As create_partition has them, and why.
        autovacuum_freeze_min_age = 0, autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 10000);
-- A state of more than two kilobytes is compressed, with lz4 if the server has it.
DO $$
BEGIN
    ALTER TABLE instance ALTER COLUMN state SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN
    NULL;
END $$;
CREATE INDEX instance_by_time ON instance (created_at);
-- Also for a definition, by the ids of its versions. A count reads it alone.
-- tenant_id as a column of the key: with INCLUDE no entries would be deduplicated.
CREATE INDEX instance_by_version ON instance (version_id, created_at, tenant_id);
CREATE INDEX instance_incident ON instance (created_at) WHERE incident_count > 0;
-- An instance without a parent has no entry.
CREATE INDEX instance_parent ON instance (parent_instance_id, created_at) WHERE parent_instance_id IS NOT NULL;

-- The beginnings of names and correlation ids: a value may be longer than an entry of an index. A start without either costs
-- nothing. Indexes of any part of them (docs/reference/rest.md) would cost a start with a correlation id as much as the start
-- itself, so an operator who wants them makes them.
CREATE INDEX instance_name ON instance ((left(name, 64) COLLATE "C")) WHERE name IS NOT NULL;
CREATE INDEX instance_correlation ON instance ((left(correlation_id, 64) COLLATE "C")) WHERE correlation_id IS NOT NULL;

-- Numbers bookmarks in the order of their creation: every bookmark that was committed before a lock of its stimulus key
-- was granted exclusively has a smaller number than the next one.
CREATE SEQUENCE bookmark_number;

CREATE TABLE bookmark (
    tenant_id text COLLATE "C" NOT NULL,
    instance_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    -- A bookmark that replaces one of the same instance and hash in one commit takes over its number: a fan-out meets
    -- either of them.
    number bigint NOT NULL DEFAULT nextval('bookmark_number'),
    activity_id text COLLATE "C" NOT NULL,
    -- Elsa's id of the activity in the tree of the definition; no node of the cluster.
    node_id text COLLATE "C" NOT NULL,
    activity_execution_id text COLLATE "C" NOT NULL,
    -- The activity type that waits, and the hash of the stimulus.
    name text NOT NULL,
    hash bytea NOT NULL,
    payload json NOT NULL,
    -- A published stimulus can match it; false where only a timer ends it.
    publishable boolean NOT NULL,
    -- That of the instance, kept current by the commit that changes it while the bookmark is publishable.
    correlation_id text,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (instance_id, id, tenant_id)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX bookmark_hash ON bookmark (hash, number) WHERE publishable;
-- A correlation id may be longer than an entry of an index.
CREATE INDEX bookmark_correlation ON bookmark (hash, hashtextextended(correlation_id, 0), number)
    WHERE publishable AND correlation_id IS NOT NULL;
-- Of an instance that has thousands of bookmarks, those for one stimulus. The id of a bookmark begins with z if it was made
-- beside many others: a start with few has no entry here, and a lookup reads those few by the primary key. `|| ''` keeps
-- the lookups by hash from this index, and that of one instance from bookmark_hash.
CREATE INDEX bookmark_crowded ON bookmark (instance_id, (hash || ''), number)
    WHERE publishable AND id >= 'z';
-- Tasks, whose ids are those of their executions: one by its id, and all in the order in which they began.
CREATE INDEX bookmark_task ON bookmark (activity_execution_id) WHERE name = 'Elsa.RunTask';
CREATE INDEX bookmark_tasks ON bookmark (number) WHERE name = 'Elsa.RunTask';

-- The routes of HTTP endpoints at which instances wait, and whose templates have parameters: a request finds the others by the
-- hash of its own path. Written by the commit that makes the bookmark, and purged when no bookmark has the hash.
CREATE TABLE bookmark_route (
    -- Derived from tenant, method and template.
    id bytea PRIMARY KEY,
    tenant_id text COLLATE "C" NOT NULL,
    -- The hash of the first run of literal segments, with its place: among those of each path that matches.
    anchor bytea NOT NULL,
    -- The hash of the stimulus. Templates that differ in names or in what is optional share it.
    hash bytea NOT NULL,
    template text NOT NULL,
    -- In lower case.
    method text NOT NULL
);
CREATE INDEX bookmark_route_anchor ON bookmark_route (anchor);

-- A child that lives: a start or a running instance that an activity of another instance has made. Whichever statement
-- ends it deletes the row and inserts the work of its parent, so that a parent is woken once for each child. A child that
-- ran in the burst of its parent is committed before it: if it lives on, the commit of the parent writes the bookmark into
-- its row, or wakes the parent itself.
CREATE TABLE child (
    tenant_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    parent_instance_id text COLLATE "C" NOT NULL,
    -- When the parent was first committed, in microseconds since 1970: its bookmark ids repeat in a later instance.
    parent_generation bigint NOT NULL,
    -- The bookmark at which the parent waits for this child; null: it does not yet, not at all, or was woken before its end.
    bookmark_id text COLLATE "C",
    -- The instance in whose burst the child was committed, if that is not its parent, which may never have been.
    root_instance_id text COLLATE "C",
    -- It has come to wait for something, after which a parent that waits for no more goes on.
    rested boolean NOT NULL DEFAULT false,
    -- It has a dead letter, and counts as faulted.
    given_up boolean NOT NULL DEFAULT false,
    PRIMARY KEY (id, tenant_id)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX child_parent ON child (parent_instance_id);
CREATE INDEX child_root ON child (root_instance_id) WHERE root_instance_id IS NOT NULL;

-- The body of the work that wakes a parent.
CREATE FUNCTION child_end(bookmark text, generation bigint, result json) RETURNS json
LANGUAGE sql STABLE AS $$
    SELECT json_build_object('bookmarkId', bookmark, 'generation', generation, 'result', result)
$$;

-- The result of a child that ended without a burst of its own.
CREATE FUNCTION child_result(child text, sub_status text, reason text) RETURNS json
LANGUAGE sql STABLE AS $$
    SELECT json_build_object('workflowInstanceId', child, 'status', 'Finished', 'subStatus', sub_status,
                             'output', '{}'::json, 'reason', reason)
$$;

CREATE FUNCTION status_name(status smallint) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT (ARRAY['Running', 'Finished'])[status + 1] $$;

CREATE FUNCTION sub_status_name(sub_status smallint) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT (ARRAY['Pending', 'Executing', 'Suspended', 'Finished', 'Cancelled', 'Faulted'])[sub_status + 1]
$$;

-- The state of an instance with the fields that are columns.
CREATE FUNCTION whole_state(i instance) RETURNS bytea
LANGUAGE sql STABLE AS $$
    SELECT convert_to('{"instanceId":' || to_json(i.id) || ',"definitionId":' || to_json(i.definition_id)
                      || ',"versionId":' || to_json(i.version_id) || ',"version":' || i.definition_version
                      || ',"status":"' || status_name(i.status) || '","subStatus":"' || sub_status_name(i.sub_status)
                      || '",', 'UTF8') || substring(i.state FROM 2)
$$;

-- The result of a child so far.
CREATE FUNCTION child_so_far(i instance) RETURNS json
LANGUAGE sql STABLE AS $$
    SELECT json_build_object('workflowInstanceId', i.id, 'status', status_name(i.status),
                             'subStatus', sub_status_name(i.sub_status),
                             'output', coalesce(convert_from(i.state, 'UTF8')::json->'output', '{}'::json))
$$;

-- One row per burst: a row per journal entry and per activity execution would be most of the cost of a commit.
-- Append-only, partitioned by the now() of the commit, never by a node's clock.
CREATE TABLE burst_record (
    tenant_id text COLLATE "C" NOT NULL,
    instance_id text COLLATE "C" NOT NULL,
    -- Of the instance, by this commit.
    version bigint NOT NULL,
    at timestamptz NOT NULL,
    began_at timestamptz NOT NULL,
    -- The journal entries have the numbers from first_entry on, without a gap.
    first_entry bigint NOT NULL,
    entries integer NOT NULL,
    -- JSON: {"values": [each text and value, once],
    --        "activities": [[number, parent, node, type, type version, name, activity, scheduled after]],
    --        "journal": [[place in activities, microseconds since began_at, event, state, payload, message, source]],
    --        "executions": [[place in activities, status, started, completed, state, outputs, payload, properties,
    --                        exception, has bookmarks, faults]]}.

    -- The lines are numbers, without the nulls at their ends. A text or a value is its place in `values`, so that what most of
    -- a burst repeats is written once; a longer value than 256 bytes is not shared, so that a read of all lines stays small.
    -- `activity` is left out where it is the end of `node`; `has bookmarks` is 1 or left out, and so are no faults.
    -- `number`, `parent` and `scheduled after` are numbers of executions within the instance (an id is `instance:number`);
    -- the last one is left out where the parent scheduled the execution by itself, and after the burst in which it started.

    -- Text, because each commit would pay for a type that parses it; readers cast.
    body text NOT NULL,
    PRIMARY KEY (instance_id, version, at, tenant_id)
) PARTITION BY RANGE (at);

-- A value to which a field of a line of a body refers.
CREATE FUNCTION record_value(list json[], line json, field integer) RETURNS json
LANGUAGE sql IMMUTABLE AS $$ SELECT list[(line->>field)::integer + 1] $$;

-- One row per entry.
CREATE VIEW journal AS
SELECT r.tenant_id, r.instance_id, r.first_entry + j.place - 1 AS sequence, r.at, r.version,
       r.began_at + (j.entry->>1)::bigint * interval '1 microsecond' AS happened_at,
       record_value(v.list, j.entry, 2) #>> '{}' AS event_name,
       r.instance_id || ':' || (a.activity->>0) AS activity_execution_id,
       r.instance_id || ':' || (a.activity->>1) AS parent_activity_execution_id,
       coalesce(record_value(v.list, a.activity, 6) #>> '{}', substring(record_value(v.list, a.activity, 2) #>> '{}' FROM '[^:]*$'))
           AS activity_id,
       record_value(v.list, a.activity, 3) #>> '{}' AS activity_type,
       (a.activity->>4)::integer AS activity_type_version, record_value(v.list, a.activity, 5) #>> '{}' AS activity_name,
       record_value(v.list, a.activity, 2) #>> '{}' AS node_id,
       record_value(v.list, j.entry, 5) #>> '{}' AS message, record_value(v.list, j.entry, 6) #>> '{}' AS source,
       record_value(v.list, j.entry, 3) AS activity_state, record_value(v.list, j.entry, 4) AS payload
FROM burst_record r
CROSS JOIN LATERAL (SELECT ARRAY(SELECT json_array_elements(r.body::json->'values')) OFFSET 0) v(list)
CROSS JOIN LATERAL json_array_elements(r.body::json->'journal') WITH ORDINALITY j(entry, place)
JOIN LATERAL json_array_elements(r.body::json->'activities') WITH ORDINALITY a(activity, place)
    ON a.place = (j.entry->>0)::bigint + 1;

-- One row per burst that touched the execution; the newest version of an id is its present state.
CREATE VIEW activity_execution AS
SELECT r.tenant_id, r.instance_id, r.instance_id || ':' || (a.activity->>0) AS id, r.version, r.at,
       r.instance_id || ':' || (a.activity->>1) AS parent_activity_execution_id,
       coalesce(record_value(v.list, a.activity, 6) #>> '{}', substring(record_value(v.list, a.activity, 2) #>> '{}' FROM '[^:]*$'))
           AS activity_id,
       record_value(v.list, a.activity, 2) #>> '{}' AS node_id, record_value(v.list, a.activity, 3) #>> '{}' AS activity_type,
       (a.activity->>4)::integer AS activity_type_version, record_value(v.list, a.activity, 5) #>> '{}' AS activity_name,
       record_value(v.list, e.done, 1) #>> '{}' AS status,
       -- Null: in an earlier commit.
       r.began_at + (e.done->>2)::bigint * interval '1 microsecond' AS started_at,
       r.began_at + (e.done->>3)::bigint * interval '1 microsecond' AS completed_at,
       record_value(v.list, e.done, 4) AS activity_state, record_value(v.list, e.done, 5) AS outputs,
       record_value(v.list, e.done, 6) AS payload, record_value(v.list, e.done, 7) AS properties,
       record_value(v.list, e.done, 8) AS exception,
       (e.done->>9) IS NOT NULL AS has_bookmarks, coalesce((e.done->>10)::integer, 0) AS fault_count
FROM burst_record r
CROSS JOIN LATERAL (SELECT ARRAY(SELECT json_array_elements(r.body::json->'values')) OFFSET 0) v(list)
CROSS JOIN LATERAL json_array_elements(r.body::json->'executions') e(done)
JOIN LATERAL json_array_elements(r.body::json->'activities') WITH ORDINALITY a(activity, place)
    ON a.place = (e.done->>0)::bigint + 1;

-- Creates the partition of a day; false: it exists.
CREATE FUNCTION create_partition(day date) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    partition text := 'burst_record_' || to_char(day, 'YYYYMMDD');
BEGIN
    IF to_regclass(quote_ident(current_schema()) || '.' || quote_ident(partition)) IS NOT NULL THEN
        RETURN false;
    END IF;
    -- A page that is frozen before the next checkpoint costs a few bytes of WAL, and after it an image of the page. A vacuum
    -- skips what an earlier one has frozen, so it visits a page once or, if it was the last one, twice. At more than 33 rows a
    -- second it comes within the five minutes of a default checkpoint_timeout; at fewer the WAL is small either way.
    EXECUTE format('CREATE TABLE %I (LIKE burst_record INCLUDING ALL) WITH (autovacuum_freeze_min_age = 0,
                        autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 10000)', partition);
    -- A body of more than two kilobytes is compressed, with lz4 if the server has it, and stays in its row as long as it fits a
    -- page then.
    EXECUTE format('ALTER TABLE %I ALTER COLUMN body SET STORAGE MAIN', partition);
    BEGIN
        EXECUTE format('ALTER TABLE %I ALTER COLUMN body SET COMPRESSION lz4', partition);
    EXCEPTION WHEN feature_not_supported THEN
        NULL;
    END;
    EXECUTE format('ALTER TABLE burst_record ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', partition,
        day::timestamp AT TIME ZONE 'UTC', (day + 1)::timestamp AT TIME ZONE 'UTC');
    RETURN true;
END $$;

-- Creates the partitions of yesterday (a clock may be stepped back over midnight), today and the days ahead; returns
-- how many. By CREATE and ATTACH, so that readers are not blocked. Any number of nodes may call it at once. Runs as
-- the owner, so that a node with a role of its own needs no more than membership.
CREATE FUNCTION ensure_partitions(days_ahead integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    first_day date := (now() AT TIME ZONE 'UTC')::date;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext(current_schema()), hashtext('partitions'));
    RETURN (SELECT count(*) FILTER (WHERE create_partition(first_day + ahead))
            FROM generate_series(-1, days_ahead) ahead);
END $$;
REVOKE ALL ON FUNCTION ensure_partitions(integer) FROM PUBLIC;

-- ===================================================================================================================
-- Queues
-- ===================================================================================================================

CREATE TABLE work (
    tenant_id text COLLATE "C" NOT NULL,
    -- Negative for a cancel, so that it is claimed before the other rows of its instance.
    id bigint GENERATED ALWAYS AS IDENTITY,
    instance_id text COLLATE "C" NOT NULL,
    -- 0 start, 1 resume, 2 stimulus, 3 cancel, 4 continue, 7 child end
    kind smallint NOT NULL,
    -- Of a start: the version that was published when it was accepted. A start that yielded keeps definition_id, so
    -- that no indexed column changes.
    definition_id text COLLATE "C",
    version_id text COLLATE "C",
    definition_version integer,
    -- JSON by kind; the types are in src/runtime, module `instruction`.
    body json NOT NULL,
    -- The fan-out that has the payload of a stimulus; null: the body has it.
    fan_out bigint,
    available_at timestamptz NOT NULL DEFAULT now(),
    created_at timestamptz NOT NULL DEFAULT now(),
    -- The incarnation; null: ready.
    claimed_by bigint,
    -- Grows with each claim: the fencing token of the row.
    claim_no bigint NOT NULL DEFAULT 0,
    -- A burst with it may have begun, and be lost: the row is claimed before others of its instance, which would change the
    -- state on which it is repeated.
    has_begun boolean NOT NULL DEFAULT false,
    -- Tries that failed; the backoff and the last try depend on it.
    failures integer NOT NULL DEFAULT 0,
    -- Processes that crashed with a claim on the row, while the server went on. From 2 on the row is isolated.
    crashes integer NOT NULL DEFAULT 0,
    -- Of a replayed dead letter: the row that it was at first, by which its burst finds the children of earlier tries.
    replays text,
    PRIMARY KEY (id) INCLUDE (tenant_id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);
-- Uncompressed, so that a claim knows the size of a body (pg_column_size) without reading it. A replay copies the body of a
-- dead letter as it is stored. Rows below 2 kB are stored as ever.
ALTER TABLE work ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE INDEX work_ready ON work (available_at, id) WHERE claimed_by IS NULL;
CREATE INDEX work_claimed ON work (claimed_by) WHERE claimed_by IS NOT NULL;
-- The order of the rows of an instance: cancels, whose ids are negative, its start at 0, others by their ids. By definition_id
-- and not by kind: a start that goes on as a continue changes no indexed column.
CREATE FUNCTION work_order(id bigint, definition_id text) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT CASE WHEN definition_id IS NULL THEN id ELSE 0 END $$;
-- Unique: an instance has one start. `work_order(…) = 0` finds it. The expression keeps lookups by id, which also name the tenant,
-- from a walk over this index, which the planner takes for cheap when it was small.
CREATE UNIQUE INDEX work_instance ON work (instance_id, work_order(id, definition_id), (tenant_id || ''));
-- The rows of a burst that began, except for a start, which the index above finds. `+ 0` keeps lookups by id from this index.
CREATE INDEX work_begun ON work (instance_id, (id + 0)) WHERE has_begun AND definition_id IS NULL AND id > 0;
CREATE INDEX work_fan_out ON work (fan_out, id) WHERE fan_out IS NOT NULL;

-- The row is claimed like work, and deleted by the commit of the burst that it resumes.
CREATE TABLE timer (
    tenant_id text COLLATE "C" NOT NULL,
    instance_id text COLLATE "C" NOT NULL,
    -- The bookmark that it ends.
    id text COLLATE "C" NOT NULL,
    due timestamptz NOT NULL,
    available_at timestamptz NOT NULL,
    claimed_by bigint,
    claim_no bigint NOT NULL DEFAULT 0,
    has_begun boolean NOT NULL DEFAULT false,
    failures integer NOT NULL DEFAULT 0,
    crashes integer NOT NULL DEFAULT 0,
    PRIMARY KEY (instance_id, id, tenant_id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX timer_due ON timer (available_at) WHERE claimed_by IS NULL;
CREATE INDEX timer_claimed ON timer (claimed_by) WHERE claimed_by IS NOT NULL;
-- Timers in backoff, not those that are not due yet.
CREATE INDEX timer_postponed ON timer (available_at) WHERE claimed_by IS NULL AND available_at > due;

-- An event for which many bookmarks wait, or an earlier event of this table, or that a workflow publishes. Events of one hash
-- take their turns in the order of their ids. A turn starts what the triggers start and draws a cut; then pages of bookmarks
-- with a number up to the cut get a row of work each, which names the fan-out and has no payload.
CREATE TABLE fan_out (
    tenant_id text COLLATE "C" NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    hash bytea NOT NULL,
    name text NOT NULL,
    payload json,
    -- Whom it is for; null: any.
    correlation_id text,
    instance_id text COLLATE "C",
    activity_execution_id text COLLATE "C",
    accepted_at timestamptz NOT NULL DEFAULT now(),
    -- If nothing waits for it in its turn, the inbox keeps it until then.
    expires_at timestamptz NOT NULL,
    -- When its turn came; null: it waits for earlier ones.
    began_at timestamptz,
    -- The pages end at the bookmark with this number; null: as began_at.
    cut bigint,
    -- The number of the last bookmark of the last page.
    cursor bigint NOT NULL DEFAULT 0,
    -- Rows of work made of it: for bookmarks, and by triggers.
    resumed bigint NOT NULL DEFAULT 0,
    started bigint NOT NULL DEFAULT 0,
    -- The highest id of its rows of work, and one that no unclaimed row of it is below.
    last_work bigint NOT NULL DEFAULT 0,
    first_work bigint NOT NULL DEFAULT 0,
    -- Null: unfinished. The row stays while a row of work needs its payload.
    finished_at timestamptz,
    PRIMARY KEY (id) INCLUDE (tenant_id),
    CHECK ((began_at IS NULL) = (cut IS NULL))
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
-- Uncompressed, as work.body is.
ALTER TABLE fan_out ALTER COLUMN payload SET STORAGE EXTERNAL;
-- `+ 0` keeps the queries of unfinished ones from the primary key, which has the finished ones, too.
CREATE INDEX fan_out_unfinished ON fan_out ((id + 0)) WHERE finished_at IS NULL;
CREATE INDEX fan_out_hash ON fan_out (hash, id) WHERE finished_at IS NULL;
-- By the cut, so that a bookmark that ends reads no dead entry of an event before it.
CREATE INDEX fan_out_begun ON fan_out (hash, cut) WHERE finished_at IS NULL AND cut IS NOT NULL;
CREATE INDEX fan_out_finished ON fan_out (finished_at) WHERE finished_at IS NOT NULL;

-- A bookmark that a begun fan-out fits, and that ends, or no longer fits, before its page. The commit that deletes or changes
-- it inserts the row, so the snapshot of a page has either, or both with one number. Its instance gets the event as if the row
-- of work had been made at the turn.
CREATE TABLE fan_out_owed (
    fan_out bigint NOT NULL,
    -- That of the bookmark.
    number bigint NOT NULL,
    tenant_id text COLLATE "C" NOT NULL,
    instance_id text COLLATE "C" NOT NULL,
    -- Distinguishes the instance from a later one with its id.
    instance_created_at timestamptz NOT NULL,
    bookmark_id text COLLATE "C" NOT NULL,
    activity_execution_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (fan_out, number)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

-- The body of a row of work with the payload of its fan-out, for a dead letter, which outlives the fan-out.
CREATE FUNCTION whole_body(body json, of_fan_out bigint) RETURNS json
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF of_fan_out IS NULL THEN
        RETURN body;
    END IF;
    RETURN json_build_object('bookmarkId', body->'bookmarkId', 'hash', body->'hash', 'name', body->'name',
                             'payload', (SELECT f.payload FROM fan_out f WHERE f.id = of_fan_out));
END $$;

-- A cancel or delete of many instances. First the starts that have not run yet, by their rows of work; then, with a cut, the
-- instances that existed at that moment, by the time of their creation. A page and the cursor are written in one transaction,
-- which holds the row.
CREATE TABLE bulk_action (
    tenant_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    -- False: it cancels.
    deletes boolean NOT NULL,
    -- JSON: the filter of a list of instances.
    filter json NOT NULL,
    accepted_at timestamptz NOT NULL DEFAULT now(),
    -- Null: starts come first.
    cut timestamptz,
    -- The last row of the last page.
    cursor_work bigint NOT NULL DEFAULT 0,
    cursor_at timestamptz,
    cursor_id text COLLATE "C",
    -- Instances that were deleted or got a cancel, and those for which that failed for a reason of their own.
    processed bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    finished_at timestamptz,
    PRIMARY KEY (id, tenant_id)
) WITH (fillfactor = 50);
CREATE INDEX bulk_action_unfinished ON bulk_action (accepted_at) WHERE finished_at IS NULL;
CREATE INDEX bulk_action_finished ON bulk_action (finished_at) WHERE finished_at IS NOT NULL;

-- A stimulus is given to the first bookmark or trigger that matches it, until it expires.
CREATE TABLE inbox (
    tenant_id text COLLATE "C" NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    hash bytea NOT NULL,
    name text NOT NULL,
    payload json,
    -- Whom it is for; null: any.
    correlation_id text,
    instance_id text COLLATE "C",
    activity_execution_id text COLLATE "C",
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (id) INCLUDE (tenant_id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
-- The size of a payload is in its row, uncompressed: a match adds sizes up before it reads any value.
ALTER TABLE inbox ALTER COLUMN payload SET STORAGE EXTERNAL;
-- What a bookmark may take, oldest first for each target. `+ 0` keeps lookups by id from this index. A correlation id may be
-- longer than an entry of an index.
CREATE INDEX inbox_target ON inbox (hash, instance_id, hashtextextended(correlation_id, 0), (id + 0))
    WHERE activity_execution_id IS NULL;
CREATE INDEX inbox_execution ON inbox (activity_execution_id, hash, (id + 0)) WHERE activity_execution_id IS NOT NULL;
-- What a trigger may take, oldest first. By coalesce, so that no lookup of inbox_target finds its rows here.
CREATE INDEX inbox_open ON inbox (hash, (id + 0)) WHERE coalesce(instance_id, activity_execution_id) IS NULL;
CREATE INDEX inbox_expiry ON inbox (expires_at);
CREATE INDEX inbox_instance ON inbox (instance_id) WHERE instance_id IS NOT NULL;

-- A publish writes one row for each of its stimuli that the inbox keeps; pages of starts follow, each in a transaction
-- that holds the row. Of several definitions the one that began first takes a stimulus.
CREATE TABLE inbox_match (
    tenant_id text COLLATE "C" NOT NULL,
    definition_id text COLLATE "C" NOT NULL,
    -- The hash of the stimulus.
    hash bytea NOT NULL,
    -- The newest inbox.id at the publish: later events see the trigger.
    cut bigint NOT NULL,
    -- Up to this inbox.id everything is started.
    cursor bigint NOT NULL DEFAULT 0,
    begun_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (definition_id, hash, tenant_id)
) WITH (fillfactor = 50);

-- A dead letter keeps all that a replay needs.
CREATE TABLE dead_letter (
    tenant_id text COLLATE "C" NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    -- Empty: an expired stimulus for no instance in particular.
    instance_id text COLLATE "C" NOT NULL,
    -- As work.kind; 5 timer, 6 inbox.
    kind smallint NOT NULL,
    reason text NOT NULL,
    -- The row that it was: one of work_id, timer_id and inbox_id.
    work_id bigint,
    timer_id text COLLATE "C",
    definition_id text COLLATE "C",
    version_id text COLLATE "C",
    definition_version integer,
    body json,
    -- Of a timer.
    due timestamptz,
    failures integer NOT NULL,
    crashes integer NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- When the row was accepted; null for a timer.
    accepted_at timestamptz,
    -- As work.replays.
    replays text,
    inbox_id bigint,
    -- Of a row of the inbox, as there.
    hash bytea,
    name text,
    correlation_id text,
    activity_execution_id text COLLATE "C",
    PRIMARY KEY (id) INCLUDE (tenant_id),
    CONSTRAINT dead_letter_of_one_row CHECK (num_nonnulls(work_id, timer_id, inbox_id) = 1),
    CONSTRAINT dead_letter_kind CHECK ((kind = 5 /* timer */) = (timer_id IS NOT NULL)
                                       AND (kind = 6 /* inbox */) = (inbox_id IS NOT NULL)),
    CONSTRAINT dead_letter_stimulus CHECK (kind <> 6 /* inbox */ OR (hash IS NOT NULL AND name IS NOT NULL))
);
ALTER TABLE dead_letter ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE INDEX dead_letter_instance ON dead_letter (instance_id);
-- Expired stimuli are purged after a while: nothing waits for them. Other dead letters stay.
CREATE INDEX dead_letter_expiry ON dead_letter (created_at) WHERE kind = 6 /* inbox */;

CREATE TABLE unmatched_work (
    tenant_id text COLLATE "C" NOT NULL,
    work_id bigint NOT NULL,
    -- The row was a dead letter until it was replayed as another row, or deleted. False: it matched
    -- nothing, or was discarded.
    dead_lettered boolean NOT NULL DEFAULT false,
    -- With its request, of which no burst was committed: the client may send it again.
    discarded boolean NOT NULL DEFAULT false,
    ended_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, work_id)
);
CREATE INDEX unmatched_work_expiry ON unmatched_work (ended_at);

-- Of requests with an idempotency key, and of every event. An accepted request is not accepted again.
CREATE TABLE idempotency_key (
    tenant_id text COLLATE "C" NOT NULL,
    route text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    -- The hash of the request: another request under the same key is refused.
    fingerprint bytea NOT NULL,
    -- The instance that the request made or was for.
    instance_id text COLLATE "C",
    expires_at timestamptz NOT NULL DEFAULT now() + interval '24 hours',
    -- The row of work that a resume became.
    work_id bigint,
    PRIMARY KEY (tenant_id, route, key)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX idempotency_key_expiry ON idempotency_key (expires_at);

-- The ends of HTTP requests whose clients may repeat them, or wait at another node than the one whose commit ended them.
CREATE TABLE http_answer (
    request_id uuid PRIMARY KEY,
    tenant_id text COLLATE "C" NOT NULL,
    -- The instance that the request started or resumed.
    instance_id text COLLATE "C" NOT NULL,
    -- 0 answered, 1 finished, 2 faulted, 3 waiting, 4 not kept
    outcome smallint NOT NULL,
    -- Of an answer that is kept.
    status smallint,
    -- Names and values in turn.
    headers text[],
    body bytea,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- Longer than the idempotency key.
    expires_at timestamptz NOT NULL DEFAULT now() + interval '24 hours',
    CHECK ((outcome = 0 /* answered */) = (status IS NOT NULL AND headers IS NOT NULL AND body IS NOT NULL))
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX http_answer_expiry ON http_answer (expires_at);

-- ===================================================================================================================
-- Webhooks
-- ===================================================================================================================

-- One node at a time sends to a sink: it claims the sink, not each delivery, so that a delivery costs two writes.
CREATE TABLE webhook_sink (
    -- By which deliveries name it: an id may be used again after a delete.
    number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    name text,
    url text NOT NULL,
    -- Empty: all.
    event_types text[] NOT NULL,
    -- Only events of these definitions; empty: of all.
    definitions text[] NOT NULL,
    -- What signs: whsec_ and base64. No query that lists sinks for clients reads it.
    secret text NOT NULL,
    -- The one before, which signs as well until then.
    previous_secret text,
    previous_until timestamptz,
    -- How long a delivery is tried.
    retry_for interval NOT NULL,
    -- By the settings of a node; the API changes only whether it is paused.
    is_configured boolean NOT NULL DEFAULT false,
    -- By an operator, or because it has left the settings: events are written, and wait.
    paused boolean NOT NULL DEFAULT false,
    -- The sink has answered that it is gone (410): nothing is written for it, and what was written is given up.
    disabled_at timestamptz,
    -- Why it is disabled, fails, or has left the settings.
    note text,
    -- Nothing is written or sent. The row is purged after the deliveries that were not sent.
    deleted_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    -- The incarnation that sends; the fencing token of its claim.
    claimed_by bigint,
    claim_no bigint NOT NULL DEFAULT 0,
    -- Rounds in a row without a success, and when the next one may begin.
    failures integer NOT NULL DEFAULT 0,
    retry_at timestamptz NOT NULL DEFAULT now(),
    CHECK ((previous_secret IS NULL) = (previous_until IS NULL))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX webhook_sink_id ON webhook_sink (id, tenant_id) WHERE deleted_at IS NULL;
CREATE INDEX webhook_sink_claimed ON webhook_sink (claimed_by) WHERE claimed_by IS NOT NULL;

CREATE TABLE webhook_delivery (
    -- Of the event, the same for all sinks and all attempts: the header webhook-id.
    id uuid NOT NULL,
    sink integer NOT NULL,
    tenant_id text COLLATE "C" NOT NULL,
    -- Empty: of no instance.
    instance_id text COLLATE "C" NOT NULL,
    event_type text NOT NULL,
    -- What is delivered needs none.
    payload json,
    -- 0 pending, 1 delivered, 2 dead letter
    state smallint NOT NULL DEFAULT 0 /* pending */,
    attempts integer NOT NULL DEFAULT 0,
    -- When a pending one may be sent.
    due_at timestamptz NOT NULL DEFAULT now(),
    created_at timestamptz NOT NULL DEFAULT now(),
    -- When it was delivered or given up.
    ended_at timestamptz,
    -- A pending one is given up then, another one is deleted.
    expires_at timestamptz NOT NULL,
    -- Of the last attempt: the status of the answer, and what was wrong.
    last_status smallint,
    last_error text,
    -- Rows of an instance are listed by it, and those of instances that begin together are adjacent.
    PRIMARY KEY (instance_id, id, sink),
    CHECK ((state = 0 /* pending */) = (ended_at IS NULL)),
    CHECK (state = 1 /* delivered */ OR payload IS NOT NULL)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
-- Uncompressed: the bytes of a payload are bounded before it is read.
ALTER TABLE webhook_delivery ALTER COLUMN payload SET STORAGE EXTERNAL;
CREATE INDEX webhook_delivery_due ON webhook_delivery (sink, due_at) WHERE state = 0 /* pending */;
CREATE INDEX webhook_delivery_dead ON webhook_delivery (sink, ended_at) WHERE state = 2 /* dead letter */;
CREATE INDEX webhook_delivery_expiry ON webhook_delivery (expires_at);

-- Argument of commit/batch.sql: an event that a burst causes. The payload is JSON.
CREATE TYPE commit_delivery AS (no integer, id uuid, event_type text, payload text);

-- A dead letter is an event, whichever statement makes it.
CREATE FUNCTION deliver_dead_letter() RETURNS trigger
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    of_definition text := coalesce(NEW.definition_id, (SELECT i.definition_id FROM instance i
                                                       WHERE i.id = NEW.instance_id AND i.tenant_id = NEW.tenant_id LIMIT 1));
BEGIN
    INSERT INTO webhook_delivery (id, sink, tenant_id, instance_id, event_type, payload, expires_at)
    SELECT substr(encode(sha256(convert_to('dead-letter|' || NEW.tenant_id || '|' || NEW.id || '|' || NEW.created_at, 'UTF8')), 'hex'), 1, 32)::uuid,
           s.number, NEW.tenant_id, NEW.instance_id, 'DeadLetter.Created',
           json_build_object('deadLetterId', NEW.id::text, 'workflowInstanceId', nullif(NEW.instance_id, ''),
                             'workflowDefinitionId', of_definition, 'tenantId', NEW.tenant_id,
                             'kind', CASE NEW.kind WHEN 0 /* start */ THEN 'start' WHEN 1 /* resume */ THEN 'resume'
                                                   WHEN 2 /* stimulus */ THEN 'stimulus' WHEN 3 /* cancel */ THEN 'cancel'
                                                   WHEN 4 /* continue */ THEN 'continue' WHEN 5 /* timer */ THEN 'delay'
                                                   WHEN 6 /* inbox */ THEN 'stimulus' ELSE 'child-end' END,
                             'reason', left(NEW.reason, 1000)),
           now() + s.retry_for
    FROM webhook_sink s
    WHERE s.tenant_id = NEW.tenant_id AND s.deleted_at IS NULL AND s.disabled_at IS NULL
      AND (s.event_types = '{}' OR 'DeadLetter.Created' = ANY (s.event_types))
      AND (s.definitions = '{}' OR of_definition = ANY (s.definitions))
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER dead_letter_delivery AFTER INSERT ON dead_letter FOR EACH ROW EXECUTE FUNCTION deliver_dead_letter();

-- Where a request comes from, as the audit has it.
CREATE TYPE audit_origin AS (
    client_address text,
    caller_kind text COLLATE "C",
    caller_id text COLLATE "C",
    caller_name text,
    caller_issuer text,
    method text COLLATE "C",
    route text COLLATE "C",
    target text
);

-- Argument of start/accept.sql: a start to be accepted.
CREATE TYPE start_request AS (
    no integer,
    tenant_id text COLLATE "C",
    instance_id text COLLATE "C",
    definition_id text COLLATE "C",
    body json,
    -- Idempotency; null without a key.
    route text COLLATE "C",
    key text COLLATE "C",
    fingerprint bytea,
    -- A worker of this node runs it at once: the row is inserted with a claim.
    claimed boolean,
    -- Null: the published version.
    version_id text COLLATE "C",
    -- The version for which the values were checked: no other one is started. Empty: none was published then. Null: any.
    checked_version text COLLATE "C",
    -- Of a start by an HTTP request: the trigger that the definition must have. Null: any start.
    trigger_activity_id text COLLATE "C",
    trigger_hash bytea,
    -- That of its publish: another one may have other options, such as `authorize`.
    trigger_revision bigint,
    -- The request that the audit notes with it; null without one.
    origin audit_origin
);

-- Deletes the idempotency key that the calling statement has just written, for a start that lost its activation key
-- to a competing one: the other starts of its batch stay accepted. Volatile, so that it sees what its statement wrote
-- before.
CREATE FUNCTION withdraw_idempotency_key(of_tenant text, of_route text, of_key text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM idempotency_key r WHERE r.tenant_id = of_tenant AND r.route = of_route AND r.key = of_key;
    RETURN true;
END $$;

-- Fails a start whose id an instance took after the snapshot of its statement: that instance is in neither the
-- snapshot nor, once its row of work is deleted, in work_instance. plpgsql reads in a newer snapshot. The error is that of
-- the index.
CREATE FUNCTION raise_if_instance_exists(of_tenant text, of_instance text) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtext(current_schema()), hashtext('import ' || of_instance));
    PERFORM 1 FROM instance i WHERE i.tenant_id = of_tenant AND i.id = of_instance;
    IF FOUND THEN
        RAISE EXCEPTION 'an instance took the id while its start was accepted' USING ERRCODE = 'unique_violation';
    END IF;
    RETURN false;
END $$;

-- Fails an import whose id a start has that was accepted: it would be discarded, as its instance exists. Either of both comes
-- after the other, and sees it: they wait for each other's lock, and read in a newer snapshot.
CREATE FUNCTION raise_if_start_exists(of_tenant text, of_instance text) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext(current_schema()), hashtext('import ' || of_instance));
    PERFORM 1 FROM work w
    WHERE w.tenant_id = of_tenant AND w.instance_id = of_instance
      AND work_order(w.id, w.definition_id) = 0 AND w.kind = 0 /* start */;
    IF FOUND THEN
        RAISE EXCEPTION 'a start took the id while its instance was imported'
            USING ERRCODE = 'unique_violation', CONSTRAINT = 'instance_pkey';
    END IF;
    RETURN false;
END $$;

-- ===================================================================================================================
-- Activation: which starts may run beside running instances
-- ===================================================================================================================

-- What a start under an activation strategy holds, from the statement that accepts it to the commit that ends its instance.
-- Rows that are not exclusive merely count while they are true (activation_counts), pruned or not: of instances that ran
-- before the strategy was published, and of those that took a correlation id which a strategy compares.
CREATE TABLE activation (
    tenant_id text COLLATE "C" NOT NULL,
    key bytea NOT NULL,
    instance_id text COLLATE "C" NOT NULL,
    exclusive boolean NOT NULL,
    -- As definition.activation_strategy; 0: held for a schedule without overlap.
    strategy smallint NOT NULL,
    definition_id text COLLATE "C" NOT NULL,
    correlation_id text
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
-- Guards inserts only. The expressions keep the planner from looking rows up by the second and third column.
CREATE UNIQUE INDEX activation_key ON activation (key, (instance_id || ''), (tenant_id || ''));
CREATE UNIQUE INDEX activation_held ON activation (key, tenant_id) WHERE exclusive;
CREATE INDEX activation_instance ON activation (instance_id);
-- There is no primary key; a publication of all tables could not delete from it otherwise.
ALTER TABLE activation REPLICA IDENTITY FULL;

-- The strategy that a definition names, as `Elsa.Workflows.Runtime.ActivationValidators.SingletonStrategy, …`. A
-- publish refuses unknown names before.
CREATE FUNCTION activation_strategy_of(body json) RETURNS smallint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE trim(substring(split_part(body->'options'->>'activationStrategyType', ',', 1) from '[^.]*$'))
        WHEN 'SingletonStrategy' THEN 1 /* singleton */ WHEN 'Singleton' THEN 1 /* singleton */
        WHEN 'CorrelatedSingletonStrategy' THEN 2 /* correlated singleton */
        WHEN 'CorrelatedSingleton' THEN 2 /* correlated singleton */
        WHEN 'CorrelationStrategy' THEN 3 /* correlation */ WHEN 'Correlation' THEN 3 /* correlation */
        ELSE 0 /* always */ END::smallint
$$;

-- The key that a start must hold; null: none. Without a correlation id a correlated singleton is one of its own, and
-- the correlation strategy compares nothing.
CREATE FUNCTION activation_key(strategy smallint, definition text, correlation text) RETURNS bytea
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE strategy
        WHEN 1 /* singleton */ THEN sha256(convert_to('1|' || definition, 'UTF8'))
        WHEN 2 /* correlated singleton */
        THEN sha256(convert_to(concat('2|', length(definition), '|', definition, '|' || nullif(correlation, '')),
                               'UTF8'))
        WHEN 3 /* correlation */ THEN sha256(convert_to('3|' || nullif(correlation, ''), 'UTF8'))
        END
$$;

-- Whether a row that is not exclusive is still true.
CREATE FUNCTION activation_counts(of_tenant text, instance text, strategy smallint, definition text, correlation text)
RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT 1 FROM instance i
                   WHERE i.tenant_id = $1 AND i.id = $2 AND i.status = 0 /* running */ AND i.definition_id = $4
                     AND ($3 = 1 /* singleton */ OR nullif(i.correlation_id, '') IS NOT DISTINCT FROM nullif($5, '')))
           OR EXISTS (SELECT 1 FROM work w
                      WHERE w.tenant_id = $1 AND w.instance_id = $2 AND w.kind = 0 /* start */ AND w.definition_id = $4
                        AND ($3 = 1 /* singleton */
                             OR nullif(w.body->>'correlationId', '') IS NOT DISTINCT FROM nullif($5, '')))
$$;

-- Whether committed rows forbid a start. Competing starts of the same moment conflict in the unique index
-- activation_held.
CREATE FUNCTION activation_blocked(of_tenant text, of_strategy smallint, of_definition text, of_correlation text)
RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
DECLARE
    of_key bytea := activation_key(of_strategy, of_definition, of_correlation);
BEGIN
    IF of_key IS NULL THEN
        RETURN false;
    END IF;
    RETURN EXISTS (SELECT 1 FROM activation a
                   WHERE a.tenant_id = of_tenant AND a.key = of_key
                     AND (a.exclusive
                          OR activation_counts(a.tenant_id, a.instance_id, a.strategy, a.definition_id,
                                               a.correlation_id)));
END $$;

-- Fails a statement that writes all or nothing; the caller tries again. The keys of running instances are not seeded
-- yet.
CREATE FUNCTION raise_activation_unseeded() RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the activation strategy was published a moment ago' USING ERRCODE = 'serialization_failure';
END $$;

-- Fails a statement that writes all or nothing; the caller tries again. A competing start took the key.
CREATE FUNCTION raise_activation_lost() RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a competing start took the activation key' USING ERRCODE = 'serialization_failure';
END $$;

-- Lets an instance go on whose faulted activities the calling commit executes again. One that had ended takes the activation
-- key that its end has freed (that of a schedule stays free), and counts for strategies that compare its correlation id; if
-- another instance holds the key, the commit fails with the error of the index. Volatile, so that it sees what its statement
-- wrote before.
CREATE FUNCTION retry_goes_on(of_tenant text, of_instance text, of_definition text, of_correlation text, had_ended boolean)
RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    published record;
BEGIN
    IF had_ended THEN
        SELECT d.activation_strategy AS strategy, d.seeding, activation_key(d.activation_strategy, of_definition, of_correlation) AS key
        INTO published
        FROM definition d WHERE d.tenant_id = of_tenant AND d.definition_id = of_definition AND d.is_published;
        IF published.seeding = 2 /* seed */ THEN
            PERFORM raise_activation_unseeded();
        END IF;
        IF published.key IS NOT NULL THEN
            IF activation_blocked(of_tenant, published.strategy, of_definition, of_correlation) THEN
                RAISE EXCEPTION 'another instance holds the activation key'
                    USING ERRCODE = 'unique_violation', CONSTRAINT = 'activation_held';
            END IF;
            INSERT INTO activation (tenant_id, key, instance_id, exclusive, strategy, definition_id, correlation_id)
            VALUES (of_tenant, published.key, of_instance, true, published.strategy, of_definition, nullif(of_correlation, ''));
        END IF;
        INSERT INTO activation (tenant_id, key, instance_id, exclusive, strategy, definition_id, correlation_id)
        SELECT of_tenant, activation_key(3::smallint /* correlation */, of_definition, of_correlation), of_instance, false,
               3 /* correlation */, of_definition, of_correlation
        WHERE of_correlation <> '' AND published.strategy IS DISTINCT FROM 3 /* correlation */
          AND EXISTS (SELECT 1 FROM definition d
                      WHERE d.tenant_id = of_tenant AND d.is_published AND d.activation_strategy = 3 /* correlation */);
        -- A cancel of its parent reaches it again, also of one that is retried later. A parent that runs has its result, and does
        -- not wait. Locked: a cancel that comes at the same moment sees the row. Without a wait, as the batch has other bursts: it
        -- is sent again.
        INSERT INTO child (tenant_id, id, parent_instance_id, parent_generation, rested)
        SELECT of_tenant, of_instance, p.id, 0, true
        FROM instance p
        WHERE p.id = (SELECT i.parent_instance_id FROM instance i WHERE i.id = of_instance AND i.tenant_id = of_tenant)
          AND p.tenant_id = of_tenant AND (p.status = 0 /* running */ OR p.sub_status = 5 /* faulted */)
        FOR SHARE OF p NOWAIT;
        -- The bookmark of a timer that was given up waits with a new one.
        DELETE FROM dead_letter l WHERE l.instance_id = of_instance AND l.tenant_id = of_tenant AND l.timer_id IS NOT NULL;
    END IF;
    -- A burst that yielded, and whose node crashed, has left its own.
    INSERT INTO work (tenant_id, instance_id, kind, body)
    SELECT of_tenant, of_instance, 4 /* continue */, '{}'
    WHERE (SELECT true FROM work x
           WHERE x.instance_id = of_instance AND x.tenant_id = of_tenant AND x.kind = 4 /* continue */ LIMIT 1) IS NULL;
    RETURN true;
END $$;

-- ===================================================================================================================
-- Commit: arguments of commit/batch.sql. A batch of bursts travels as arrays; `no` is the place of a burst in its batch.
-- ===================================================================================================================

CREATE TYPE commit_request AS (
    no integer,
    tenant_id text COLLATE "C",
    instance_id text COLLATE "C",
    -- The version that was loaded; 0 for a new instance.
    expected bigint,
    burst uuid,
    -- How many claims the burst consumes.
    claims integer,
    definition_id text COLLATE "C",
    version_id text COLLATE "C",
    definition_version integer,
    status smallint,
    sub_status smallint,
    correlation_id text,
    name text,
    incident_count integer,
    state bytea,
    -- From the begin of the burst to its end.
    elapsed bigint,
    -- The claimed row of work, if it is the only claim; of a burst that goes on, the row that it goes on under.
    work_id bigint,
    claim_no bigint,
    -- The burst yielded.
    continues boolean,
    -- Faulted activities are executed again.
    retried boolean,
    -- The burst_record; null: none.
    first_entry bigint,
    entries integer,
    record text,
    -- Of a new instance.
    parent_instance_id text COLLATE "C"
);
-- A child that the burst starts, in the version that is published by then.
CREATE TYPE commit_child AS (
    no integer,
    id text COLLATE "C",
    definition_id text COLLATE "C",
    correlation_id text,
    body json,
    -- The bookmark at which the burst waits for it; null: it does not.
    bookmark_id text COLLATE "C"
);
-- The burst is that of a child, and its parent goes on if it waits. `ends`: the child has ended; else it only waits.
CREATE TYPE commit_child_end AS (no integer, ends boolean, result json);
-- The request is that of a child which ran in the burst of its parent, and loses if that one would: the outermost parent
-- (`expected` is 0 before its first commit) and the number of its claims. `lives`: the child has not ended, `continues`: it
-- has yielded.
CREATE TYPE commit_nested AS (no integer, root_instance_id text COLLATE "C", expected bigint, claims integer, lives boolean, continues boolean);
-- The burst waits at the bookmark for a child that was committed before. `until_rest`: only until that waits itself.
CREATE TYPE commit_awaited AS (no integer, child_id text COLLATE "C", bookmark_id text COLLATE "C", until_rest boolean);
CREATE TYPE commit_claim AS (no integer, work_id bigint, timer_id text COLLATE "C", claim_no bigint);
CREATE TYPE commit_bookmark AS (
    no integer,
    id text COLLATE "C",
    activity_id text COLLATE "C",
    node_id text COLLATE "C",
    activity_execution_id text COLLATE "C",
    name text,
    hash bytea,
    payload json,
    publishable boolean,
    -- After the now() of the commit, when a timer ends it; null for none.
    delay bigint
);
CREATE TYPE commit_burned AS (no integer, id text COLLATE "C");
CREATE TYPE commit_stimulus AS (no integer, hash bytea, name text, payload json, lifetime bigint);
-- An event that a burst publishes, in the order of the array.
CREATE TYPE commit_event AS (
    no integer, hash bytea, name text, payload json, correlation_id text, is_local boolean, lifetime bigint
);
-- The end of a request that is kept.
CREATE TYPE commit_answer AS (
    no integer, request_id uuid, outcome smallint, status smallint, headers text[], body bytea
);
-- A bookmark that a timer ends at a point in time.
CREATE TYPE commit_due AS (no integer, id text COLLATE "C", due timestamptz);
-- A stimulus key that a burst needs; the lock statement before may not have got it.
CREATE TYPE commit_key AS (no integer, key integer);

-- Gives the bookmarks that a commit made, and those of an instance that took another correlation id, the stimuli that the
-- inbox keeps for them: one each, the oldest that fits. Called in a statement of its own, while the stimulus keys are locked.
-- 54M01 refuses more than 8 MiB of payloads for more than one instance, and the batch is split.
CREATE FUNCTION match_inbox(tenants text[], instances text[], bookmarks text[]) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    waiting record;
    last_tenant text;
    last_hash bytea;
    last_correlation text;
    last_instance text;
    -- The last stimulus that was taken: of those for any instance, for a correlation id, for an instance, and for both.
    -- All bookmarks that such a stimulus fits come one after the other.
    any_taken bigint;
    correlated_taken bigint;
    instance_taken bigint;
    both_taken bigint;
    oldest record;
    chosen bigint[];
    takers integer[];
    locked integer;
    bytes bigint;
BEGIN
    LOOP
        chosen := '{}';
        takers := '{}';
        last_tenant := NULL;
        FOR waiting IN
            SELECT n.no, n.tenant_id, n.instance_id, b.hash, b.activity_execution_id, i.correlation_id
            FROM unnest(tenants, instances, bookmarks) WITH ORDINALITY n(tenant_id, instance_id, id, no)
            -- By LIMIT, so that each row is looked up by its key, whatever the tables held when this was planned.
            CROSS JOIN LATERAL (
                SELECT w.hash, w.activity_execution_id FROM bookmark w
                WHERE w.tenant_id = n.tenant_id AND w.instance_id = n.instance_id AND w.id = n.id AND w.publishable
                LIMIT 1) b
            CROSS JOIN LATERAL (
                SELECT r.correlation_id FROM instance r
                WHERE r.tenant_id = n.tenant_id AND r.id = n.instance_id
                  -- Written by this very transaction: a burst that lost, or was sent again, has not written it.
                  AND r.xmin = pg_current_xact_id()::xid
                LIMIT 1) i
            WHERE coalesce((SELECT true FROM inbox x WHERE x.hash = b.hash AND x.activity_execution_id IS NULL LIMIT 1),
                           (SELECT true FROM inbox x
                            WHERE x.activity_execution_id = b.activity_execution_id AND x.hash = b.hash LIMIT 1), false)
            ORDER BY n.tenant_id, b.hash, i.correlation_id, n.instance_id, n.id
        LOOP
            IF waiting.tenant_id IS DISTINCT FROM last_tenant OR waiting.hash <> last_hash THEN
                any_taken := 0;
                correlated_taken := 0;
                instance_taken := 0;
                both_taken := 0;
            ELSIF waiting.correlation_id IS DISTINCT FROM last_correlation THEN
                correlated_taken := 0;
                instance_taken := 0;
                both_taken := 0;
            ELSIF waiting.instance_id <> last_instance THEN
                instance_taken := 0;
                both_taken := 0;
            END IF;
            last_tenant := waiting.tenant_id;
            last_hash := waiting.hash;
            last_correlation := waiting.correlation_id;
            last_instance := waiting.instance_id;
            -- An order by all columns of the index: a test for null does not make its column a constant.
            SELECT f.target, f.id INTO oldest
            FROM ((SELECT 'any' AS target, x.id FROM inbox x
                   WHERE x.hash = waiting.hash AND x.instance_id IS NULL
                     AND hashtextextended(x.correlation_id, 0) IS NULL
                     AND x.activity_execution_id IS NULL AND x.id + 0 > any_taken
                     AND x.tenant_id = waiting.tenant_id AND x.expires_at > now()
                   ORDER BY x.instance_id, hashtextextended(x.correlation_id, 0), x.id + 0 LIMIT 1)
                  UNION ALL
                  (SELECT 'correlated', x.id FROM inbox x
                   WHERE x.hash = waiting.hash AND x.instance_id IS NULL
                     AND hashtextextended(x.correlation_id, 0) = hashtextextended(waiting.correlation_id, 0)
                     AND x.correlation_id = waiting.correlation_id
                     AND x.activity_execution_id IS NULL AND x.id + 0 > correlated_taken
                     AND x.tenant_id = waiting.tenant_id AND x.expires_at > now()
                   ORDER BY x.instance_id, hashtextextended(x.correlation_id, 0), x.id + 0 LIMIT 1)
                  UNION ALL
                  (SELECT 'instance', x.id FROM inbox x
                   WHERE x.hash = waiting.hash AND x.instance_id = waiting.instance_id
                     AND hashtextextended(x.correlation_id, 0) IS NULL
                     AND x.activity_execution_id IS NULL AND x.id + 0 > instance_taken
                     AND x.tenant_id = waiting.tenant_id AND x.expires_at > now()
                   ORDER BY x.instance_id, hashtextextended(x.correlation_id, 0), x.id + 0 LIMIT 1)
                  UNION ALL
                  (SELECT 'both', x.id FROM inbox x
                   WHERE x.hash = waiting.hash AND x.instance_id = waiting.instance_id
                     AND hashtextextended(x.correlation_id, 0) = hashtextextended(waiting.correlation_id, 0)
                     AND x.correlation_id = waiting.correlation_id
                     AND x.activity_execution_id IS NULL AND x.id + 0 > both_taken
                     AND x.tenant_id = waiting.tenant_id AND x.expires_at > now()
                   ORDER BY x.instance_id, hashtextextended(x.correlation_id, 0), x.id + 0 LIMIT 1)
                  UNION ALL
                  (SELECT 'execution', x.id FROM inbox x
                   WHERE x.activity_execution_id = waiting.activity_execution_id AND x.hash = waiting.hash
                     AND x.id <> ALL (chosen)
                     AND (x.instance_id IS NULL OR x.instance_id = waiting.instance_id)
                     AND (x.correlation_id IS NULL OR x.correlation_id = waiting.correlation_id)
                     AND x.tenant_id = waiting.tenant_id AND x.expires_at > now()
                   ORDER BY x.activity_execution_id, x.hash, x.id + 0 LIMIT 1)) f
            ORDER BY f.id
            LIMIT 1;
            IF NOT FOUND THEN
                CONTINUE;
            END IF;
            CASE oldest.target
                WHEN 'any' THEN any_taken := oldest.id;
                WHEN 'correlated' THEN correlated_taken := oldest.id;
                WHEN 'instance' THEN instance_taken := oldest.id;
                WHEN 'both' THEN both_taken := oldest.id;
                ELSE NULL;
            END CASE;
            chosen := chosen || oldest.id;
            takers := takers || waiting.no::integer;
        END LOOP;
        IF chosen = '{}' THEN
            RETURN 0;
        END IF;
        BEGIN
            -- Only what is taken, in the order in which every transaction locks rows of the inbox.
            SELECT count(*), sum(h.bytes) INTO locked, bytes
            FROM (SELECT pg_column_size(x.payload) AS bytes FROM inbox x WHERE x.id = ANY (chosen)
                  ORDER BY x.id FOR UPDATE) h;
            IF locked < cardinality(chosen) THEN
                RAISE EXCEPTION 'a stimulus of the inbox was taken meanwhile' USING ERRCODE = '40M01';
            END IF;
            IF bytes > 8 * 1024 * 1024
               AND (SELECT count(DISTINCT (tenants[t.no], instances[t.no])) FROM unnest(takers) t(no)) > 1 THEN
                RAISE EXCEPTION 'the stimuli of a batch have % bytes together', bytes USING ERRCODE = '54M01';
            END IF;
            WITH taken AS (
                DELETE FROM inbox x WHERE x.id = ANY (chosen) RETURNING x.id, x.payload
            )
            INSERT INTO work (tenant_id, instance_id, kind, body)
            SELECT tenants[c.no], instances[c.no], 2 /* stimulus */, json_build_object(
                'bookmarkId', bookmarks[c.no], 'hash', encode(b.hash, 'hex'), 'name', b.name, 'payload', t.payload)
            FROM taken t
            JOIN unnest(chosen, takers) c(id, no) ON c.id = t.id
            CROSS JOIN LATERAL (
                SELECT w.hash, w.name FROM bookmark w
                WHERE w.tenant_id = tenants[c.no] AND w.instance_id = instances[c.no] AND w.id = bookmarks[c.no]
                LIMIT 1) b
            ORDER BY t.id;
            RETURN cardinality(chosen);
        EXCEPTION WHEN SQLSTATE '40M01' THEN
            -- The locks are released: with any of them held, others would be taken in no order.
            NULL;
        END;
    END LOOP;
END $$;

-- ===================================================================================================================
-- Identity
-- ===================================================================================================================

-- Each transaction that changes users, roles or applications, or ends sessions, locks `revision` first: so no two of them both
-- remove the last administrator but one, and what a caller may give away is read once.

CREATE TABLE identity_user (
    id text COLLATE "C" PRIMARY KEY,
    tenant_id text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    -- The ids of roles of its tenant.
    roles text[] NOT NULL,
    -- argon2id, as a PHC string: it has its parameters and its salt. No query for clients reads it.
    password_hash text NOT NULL,
    disabled_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
-- Of the whole cluster: a login names no tenant.
CREATE UNIQUE INDEX identity_user_name ON identity_user (lower(name));

CREATE TABLE identity_role (
    id text COLLATE "C" NOT NULL,
    tenant_id text COLLATE "C" NOT NULL,
    name text NOT NULL,
    permissions text[] NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (id, tenant_id)
);
INSERT INTO identity_role (id, tenant_id, name, permissions) VALUES
    ('admin', '', 'Administrator', ARRAY['*']),
    ('author', '', 'Author', ARRAY['read:*', 'write:workflow-definitions', 'publish:workflow-definitions',
        'retract:workflow-definitions', 'delete:workflow-definitions', 'exec:workflow-definitions', 'exec:tests']),
    ('operator', '', 'Operator', ARRAY['read:*', 'exec:workflow-definitions', 'write:workflow-instances',
        'cancel:workflow-instances', 'delete:workflow-instances', 'run:alterations', 'trigger:event', 'tasks:complete',
        'delete:bookmark-queue:dead-letters', 'replay:bookmark-queue:dead-letters', 'write:schedules', 'write:resume-links',
        'write:webhooks', 'write:cluster', 'ManageWorkflowRuntime']),
    ('reader', '', 'Reader', ARRAY['read:*']);

-- A key is random, so its plain hash discloses nothing of it.
CREATE TABLE identity_application (
    id text COLLATE "C" PRIMARY KEY,
    tenant_id text COLLATE "C" NOT NULL,
    name text NOT NULL,
    -- The ids of roles of its tenant.
    roles text[] NOT NULL,
    -- What the key begins with, by which people tell keys apart.
    client_id text COLLATE "C" NOT NULL,
    -- SHA-256 of the whole key.
    key_hash bytea NOT NULL UNIQUE,
    -- Null: never.
    expires_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX identity_application_name ON identity_application (lower(name), tenant_id);

-- A family of tokens: each use of its refresh token makes another one the good one. One that is ended has no row.
CREATE TABLE identity_session (
    id uuid PRIMARY KEY,
    tenant_id text COLLATE "C" NOT NULL,
    user_id text COLLATE "C" NOT NULL,
    -- The refresh token that is good, and the one before, which gets the same answer for a while.
    current uuid NOT NULL,
    previous uuid,
    -- When the current one was issued, and the number of the key that signed it.
    issued_at timestamptz NOT NULL,
    signed_by integer NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL
) WITH (fillfactor = 90);
CREATE INDEX identity_session_user ON identity_session (user_id);
CREATE INDEX identity_session_expiry ON identity_session (expires_at);

-- Unlogged: a flood costs no WAL, and after a crash of the server the counts begin again.
CREATE UNLOGGED TABLE login_attempt (
    -- A hash of a name, of a client's address, or of both: what was typed as a name may be a password.
    key bytea PRIMARY KEY,
    failures integer NOT NULL,
    -- The count begins again then.
    until timestamptz NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX login_attempt_until ON login_attempt (until);

-- ===================================================================================================================
-- Secrets
-- ===================================================================================================================

-- The newest one signs links and tokens of users, and each of them verifies. Each is made from two random UUIDs (244 random bits).
CREATE TABLE token_key (
    id integer PRIMARY KEY CHECK (id > 0),
    key bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO token_key (id, key) VALUES (1, sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8')));

-- Every role that may connect may NOTIFY on any channel whose name it knows: without the right to read this table the
-- names cannot be computed.
CREATE TABLE channel_secret (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    secret bytea NOT NULL
);
INSERT INTO channel_secret (secret)
VALUES (sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8')));

-- The name of a channel: at most 50 of the 63 bytes that a name has. Reads the secret with the caller's rights.
CREATE FUNCTION channel_name(kind text) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT 'mainspring_' || kind || '_'
           || substr(encode(sha256(s.secret || sha256(s.secret || convert_to(kind, 'UTF8'))), 'hex'), 1, 32)
    FROM channel_secret s
$$;

-- ===================================================================================================================
-- Links
-- ===================================================================================================================

-- Written by the commit of the burst that made it, or by a request. A link itself is never stored: its text is the id with a MAC.
CREATE TABLE resume_link (
    id uuid PRIMARY KEY,
    tenant_id text COLLATE "C" NOT NULL,
    instance_id text COLLATE "C" NOT NULL,
    -- Distinguishes the instance from a deleted one with the same id: the time of its first commit.
    generation bigint NOT NULL,
    -- The bookmark that it resumes, or the event that it triggers.
    bookmark_id text COLLATE "C",
    event text,
    uses integer NOT NULL,
    uses_left integer NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz,
    -- The number of the key that signed it when it was made.
    signed_by integer NOT NULL,
    CHECK (num_nonnulls(bookmark_id, event) = 1),
    CHECK (uses >= 1 AND uses_left BETWEEN 0 AND uses)
) WITH (fillfactor = 90);
CREATE INDEX resume_link_instance ON resume_link (instance_id);
CREATE INDEX resume_link_expiry ON resume_link (expires_at);

-- What was done from outside, and by whom. Rows are only added, and deleted when they are older than their retention.
CREATE TABLE audit (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id text COLLATE "C" NOT NULL,
    -- clock_timestamp(): an attempt that waited for another one comes after it.
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- 0 resume link, 1 request, 2 login
    action smallint NOT NULL,
    -- 0 accepted, 1 used, 2 expired, 3 revoked, 4 ended, 5 unknown, 6 refused, 7 repeated, 8 failed
    outcome smallint NOT NULL,
    -- Why it was not accepted: the code of the error.
    code text COLLATE "C",
    client_address text,
    instance_id text COLLATE "C",
    link_id uuid,
    -- Of a request and of a login: anonymous, api-key, application, user or external.
    caller_kind text COLLATE "C",
    -- Of a user, an application or a token; null of the others.
    caller_id text COLLATE "C",
    -- For readers, as it was then; of a login the name that was tried.
    caller_name text,
    caller_issuer text,
    -- Of a request: the template of its path, and the values in it.
    method text COLLATE "C",
    route text COLLATE "C",
    target text
);
-- Purged in the order of their ids, which is nearly that of their times: no index on `at` is written with each start.
CREATE INDEX audit_instance ON audit (instance_id, id) WHERE instance_id IS NOT NULL;
CREATE INDEX audit_link ON audit (link_id, id) WHERE link_id IS NOT NULL;
CREATE INDEX audit_caller ON audit (caller_id, id) WHERE caller_id IS NOT NULL;

-- Why a resume link that was signed with this key cannot be used now; null if it can. The pages of links and their uses have one
-- answer.
CREATE FUNCTION resume_link_refusal(link resume_link, signed_by integer) RETURNS smallint
LANGUAGE sql VOLATILE AS $$
    SELECT CASE
        WHEN link.revoked_at IS NOT NULL OR NOT EXISTS (SELECT 1 FROM token_key k WHERE k.id = signed_by)
            THEN 3::smallint /* revoked */
        WHEN link.uses_left < 1 THEN 1::smallint /* used */
        WHEN link.expires_at <= clock_timestamp() THEN 2::smallint /* expired */
        WHEN NOT EXISTS (SELECT 1 FROM instance i
                         WHERE i.id = link.instance_id AND i.tenant_id = link.tenant_id AND i.status = 0 /* running */
                           AND (extract(epoch FROM i.created_at) * 1000000)::bigint = link.generation)
            THEN 4::smallint /* ended */
        WHEN link.bookmark_id IS NOT NULL
             AND NOT EXISTS (SELECT 1 FROM bookmark b
                             WHERE b.instance_id = link.instance_id AND b.id = link.bookmark_id
                               AND b.tenant_id = link.tenant_id)
            THEN 4::smallint /* ended */
    END
$$;

-- Fails a transaction that uses a resume link; MSP02 is the class of its error, and its message the number of the outcome.
CREATE FUNCTION raise_link_refused(outcome smallint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%', outcome USING ERRCODE = 'MSP02';
END $$;

-- ===================================================================================================================
-- Views for people and reports
-- ===================================================================================================================

-- What the names of the sessions of nodes begin with.
CREATE FUNCTION session_prefix() RETURNS text
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT 'mainspring/' || substr(encode(sha256(convert_to(current_schema(), 'UTF8')), 'hex'), 1, 8) || '/'
$$;

CREATE VIEW nodes AS
SELECT n.node_id, n.incarnation,
       CASE WHEN d.incarnation IS NOT NULL THEN 'removed'
            WHEN n.last_seen < clock_timestamp() - n.tolerance OR n.last_seen > clock_timestamp() + n.tolerance THEN 'expired'
            WHEN n.hung THEN 'hung'
            WHEN n.draining THEN 'draining'
            ELSE 'live' END AS state,
       n.started_at, n.last_seen AS last_seen_at, n.roles, n.facts->>'version' AS version, n.clock_ahead, n.missing_activity_types
FROM node n
LEFT JOIN removed_node d ON d.incarnation = n.incarnation
UNION ALL
SELECT d.node_id, d.incarnation, 'removed', NULL, NULL, '{}', NULL, NULL, '{}'
FROM removed_node d WHERE NOT EXISTS (SELECT 1 FROM node n WHERE n.incarnation = d.incarnation);

CREATE VIEW instances AS
SELECT i.tenant_id, i.id, i.definition_id, i.version_id, i.definition_version, status_name(i.status) AS status,
       sub_status_name(i.sub_status) AS sub_status, i.correlation_id, i.name, i.incident_count, i.parent_instance_id,
       i.created_at, i.updated_at, i.finished_at
FROM instance i;

-- The advisory locks of the database; those of no node are held by other programs.
CREATE VIEW locks AS
SELECT CASE WHEN o.is_node THEN split_part(a.application_name, '/', 4) END AS node_id,
       CASE WHEN o.is_node AND split_part(a.application_name, '/', 3) ~ '^[0-9]{1,18}$'
            THEN split_part(a.application_name, '/', 3)::bigint END AS incarnation,
       CASE WHEN l.objsubid = 1 THEN lpad(to_hex((l.classid::bigint << 32) | l.objid::bigint), 16, '0')
            ELSE lpad(to_hex(l.classid::bigint), 8, '0') || '/' || lpad(to_hex(l.objid::bigint), 8, '0') END AS key,
       CASE WHEN l.mode = 'ShareLock' THEN 'shared' ELSE 'exclusive' END AS mode, l.granted AS is_granted, l.waitstart AS waits_since,
       l.pid AS process_id, a.usename::text AS user_name, a.application_name AS application, a.backend_start AS connected_at
FROM pg_locks l
JOIN pg_stat_activity a ON a.pid = l.pid
CROSS JOIN LATERAL (SELECT starts_with(coalesce(a.application_name, ''), session_prefix()) AS is_node) o
WHERE l.locktype = 'advisory' AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database());

CREATE VIEW timers AS
SELECT t.tenant_id, t.instance_id, t.id AS bookmark_id, t.due AS due_at, t.available_at,
       CASE WHEN t.claimed_by IS NOT NULL THEN 'claimed'
            WHEN t.due > now() THEN 'scheduled'
            WHEN t.available_at > now() THEN 'retrying'
            ELSE 'due' END AS state,
       n.node_id, t.failures, t.crashes
FROM timer t
LEFT JOIN node n ON n.incarnation = t.claimed_by;

CREATE VIEW queue AS
SELECT w.tenant_id, w.id, w.instance_id,
       CASE w.kind WHEN 0 /* start */ THEN 'start' WHEN 1 /* resume */ THEN 'resume' WHEN 2 /* stimulus */ THEN 'stimulus'
                   WHEN 3 /* cancel */ THEN 'cancel' WHEN 4 /* continue */ THEN 'continue' ELSE 'child end' END AS kind,
       CASE WHEN w.claimed_by IS NOT NULL THEN 'claimed'
            WHEN w.available_at > now() AND w.failures > 0 THEN 'retrying'
            WHEN w.available_at > now() THEN 'scheduled'
            WHEN w.crashes >= 2 THEN 'isolated'
            ELSE 'ready' END AS state,
       w.created_at AS accepted_at, w.available_at, n.node_id, w.failures, w.crashes
FROM work w
LEFT JOIN node n ON n.incarnation = w.claimed_by;
