-- purpose: lock the stimulus keys of a publisher of an event, or of a publish that changes triggers, and wait for them
-- caller:  store::stimulus_key
-- index:   none
-- locks:   advisory (schema key, stimulus key), one sorted pass, under lock_timeout
SELECT count(t.got)
FROM (
    SELECT CASE WHEN k.exclusive THEN pg_advisory_xact_lock($1::integer, k.key)
                ELSE pg_advisory_xact_lock_shared($1::integer, k.key) END::text AS got
    FROM (SELECT * FROM unnest($2::integer[], $3::boolean[]) u(key, exclusive) ORDER BY key OFFSET 0) k
) t
