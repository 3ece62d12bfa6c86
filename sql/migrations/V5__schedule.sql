-- Schedules: what starts an instance when it is time, and delays that name a point in time.

CREATE TABLE schedule (
    tenant_id text NOT NULL,
    -- Derived from definition and activity, so that it survives a publish.
    id text NOT NULL,
    definition_id text NOT NULL,
    activity_id text NOT NULL,
    activity_type text NOT NULL,
    -- All inputs, written out.
    spec json NOT NULL,
    -- When it began to hold: first published, or changed since.
    anchor timestamptz NOT NULL,
    -- The time zone database that the next occurrence was computed with.
    tz_version text NOT NULL,
    -- What an occurrence does while an earlier one runs: 0 starts, 1 is dropped, 2 waits, one of them.
    overlap smallint NOT NULL CHECK (overlap BETWEEN 0 AND 2),
    -- Grows with each change of the row: whoever decided by what it saw finds out that it changed.
    version bigint NOT NULL DEFAULT 1,
    -- The last occurrence that is settled: fired, or skipped. None at or before it is ever decided again.
    last_occurrence timestamptz,
    -- Null: it is over.
    next_occurrence timestamptz,
    next_fire timestamptz,
    paused boolean NOT NULL DEFAULT false,
    -- The occurrence that waits until what runs has ended, as the instance will be told.
    queued json,
    fired bigint NOT NULL DEFAULT 0,
    misfired bigint NOT NULL DEFAULT 0,
    skipped bigint NOT NULL DEFAULT 0,
    last_fired_at timestamptz,
    -- Microseconds.
    last_lateness bigint,
    -- The node that fired it last.
    last_node text,
    last_instance text,
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, definition_id, activity_id),
    CHECK ((next_occurrence IS NULL) = (next_fire IS NULL))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX schedule_due ON schedule (next_fire, id) WHERE next_fire IS NOT NULL AND NOT paused;
CREATE INDEX schedule_queued ON schedule (tenant_id, id) WHERE queued IS NOT NULL AND NOT paused;

-- What an instance holds in `activation` that must not run beside another one of its schedule. Its strategy there is 0.
CREATE FUNCTION schedule_key(schedule text) RETURNS bytea
LANGUAGE sql IMMUTABLE AS $$ SELECT sha256(convert_to('schedule|' || schedule, 'UTF8')) $$;

-- What a publish makes of a schedule.
CREATE TYPE schedule_plan AS (
    id text,
    activity_id text,
    activity_type text,
    spec json,
    overlap smallint,
    anchor timestamptz,
    tz_version text,
    next_occurrence timestamptz,
    next_fire timestamptz
);

-- What firing makes of a schedule, if it still is at that version; see schedule/fire.sql.
CREATE TYPE schedule_turn AS (
    no integer,
    tenant_id text,
    id text,
    version bigint,
    tz_version text,
    last_occurrence timestamptz,
    next_occurrence timestamptz,
    next_fire timestamptz,
    queued json,
    misfired bigint,
    skipped bigint,
    -- Of the last one that fires, in microseconds.
    lateness bigint
);

-- An instance that it starts. `delay`: microseconds until it may be claimed.
CREATE TYPE schedule_start AS (no integer, instance_id text, activity_id text, payload json, delay bigint);

-- A bookmark that a timer ends at a point in time.
CREATE TYPE commit_due AS (no integer, id text, due timestamptz);
