-- Take-over: the watch over a neighbour, dead letters, and jobs that the cluster does once.

-- Waits until a lock is free, at most so many milliseconds; whether it was. An unbounded wait would hold back the
-- clean-up of the whole database. The lock ends with the statement: that it was free once is all the news there is, and
-- a lock that was granted in the moment of the time-out is given back with the rest.
CREATE FUNCTION watch_lock(key bigint, patience integer) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('lock_timeout', patience::text, true);
    PERFORM pg_advisory_xact_lock(key);
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END $$;

-- Whether a connection of an incarnation idles. A process that died leaves none, or only for the blink in which the
-- server notices; one that has lost nothing but its lock session still has the others.
CREATE FUNCTION shows_life(incarnation bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT 1 FROM pg_stat_activity a
        WHERE a.datname = current_database() AND a.state = 'idle'
          AND starts_with(a.application_name,
                          'mainspring/' || substr(encode(sha256(convert_to(current_schema(), 'UTF8')), 'hex'), 1, 8)
                              || '/' || incarnation || '/'))
$$;

-- Whether something that had crashed twice was in its hands: then that alone is blamed for the death.
ALTER TABLE departed ADD COLUMN suspected boolean NOT NULL DEFAULT false;

-- Processes that died within the last hour. A row at its third crash is given up at once only if there were no deaths
-- beside those that it can explain.
CREATE TABLE death (
    incarnation bigint PRIMARY KEY,
    died_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- What was given up, with all that a replay needs.
CREATE TABLE dead_letter (
    tenant_id text NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    instance_id text NOT NULL,
    -- As in `work`; 5 is a delay.
    kind smallint NOT NULL,
    reason text NOT NULL,
    -- The row that it was: one of the two.
    work_id bigint,
    timer_id text,
    definition_id text,
    version_id text,
    definition_version integer,
    body json,
    due timestamptz,
    failures integer NOT NULL,
    crashes integer NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, id),
    CHECK ((work_id IS NULL) <> (timer_id IS NULL)),
    CHECK ((kind = 5) = (timer_id IS NOT NULL))
);
CREATE INDEX dead_letter_instance ON dead_letter (tenant_id, instance_id);

-- Whoever moves next_run_at on has the job to do.
CREATE TABLE cluster_job (
    name text PRIMARY KEY,
    next_run_at timestamptz NOT NULL DEFAULT now(),
    -- Who did it last, for those who look.
    incarnation bigint
) WITH (fillfactor = 50);
INSERT INTO cluster_job (name) VALUES ('orphans'), ('expiry'), ('partitions');
