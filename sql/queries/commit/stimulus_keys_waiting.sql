-- purpose: lock the stimulus keys of contended requests, and wait for them under the lock_timeout of the session
-- caller:  store::commit::pipeline, the contended lane
-- index:   none
-- locks:   advisory (schema key, stimulus key), one sorted pass
SELECT set_config('mainspring.missed', '', true) AS missed, count(t.got)
FROM (
    SELECT CASE WHEN k.exclusive THEN pg_advisory_xact_lock($1::integer, k.key)
                ELSE pg_advisory_xact_lock_shared($1::integer, k.key) END::text AS got
    FROM (SELECT * FROM unnest($2::integer[], $3::boolean[]) u(key, exclusive) ORDER BY key OFFSET 0) k
) t
