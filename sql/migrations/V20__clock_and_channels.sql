-- What holds when the server's clock is stepped back, when each node has a role of its own, and when roles connect that
-- have no rights here.

-- Clocks ----------------------------------------------------------------------------------------------------------

-- From one time to the next, as of the last claim. A job that is further ahead than two of these was written before the
-- clock was stepped back.
ALTER TABLE cluster_job ADD COLUMN every interval NOT NULL DEFAULT '1 hour';

-- Delays that are claimed again after a pause, not those that are not due yet: few, whatever sleeps.
CREATE INDEX timer_postponed ON timer (available_at) WHERE claimed_by IS NULL AND available_at > due;

-- As before, with yesterday's: a clock that is stepped back over midnight finds a partition.
-- With the rights of the owner, so that a node with a role of its own needs no more than to be a member of it.
CREATE OR REPLACE FUNCTION ensure_partitions(days_ahead integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    first_day date := (now() AT TIME ZONE 'UTC')::date;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext(current_schema()), hashtext('partitions'));
    RETURN (SELECT count(*) FILTER (WHERE make_partition(first_day + ahead)) FROM generate_series(-1, days_ahead) ahead);
END $$;
REVOKE ALL ON FUNCTION ensure_partitions(integer) FROM PUBLIC;

-- As before; a check-in that is further ahead than the tolerance was made before the clock was stepped back.
CREATE OR REPLACE FUNCTION terminate_incarnation(dead bigint) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    prefix text := 'mainspring/' || substr(encode(sha256(convert_to(current_schema(), 'UTF8')), 'hex'), 1, 8)
        || '/' || dead || '/';
    ended integer;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM departed d WHERE d.incarnation = dead)
       AND NOT EXISTS (SELECT 1 FROM node n WHERE n.incarnation = dead
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

-- A role per node -------------------------------------------------------------------------------------------------

-- Whether a connection of an incarnation idles, as before, but with the owner's rights: a node may not see what the
-- sessions of another role do. Null: there are sessions, and the owner may not see it either.
CREATE OR REPLACE FUNCTION shows_life(incarnation bigint) RETURNS boolean
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

-- Roles without rights --------------------------------------------------------------------------------------------

-- Every role that may connect may NOTIFY on any channel whose name it knows. So the names are not to be computed without
-- the right to read this.
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
