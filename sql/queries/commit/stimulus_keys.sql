-- purpose: lock the stimulus keys of a batch, shared for new bookmarks and exclusive for published stimuli; keys that
--          are locked elsewhere go to mainspring.missed, and the batch statement leaves their requests out
-- caller:  store::commit::pipeline, an earlier statement of the same pipelined transaction
-- index:   none
-- locks:   advisory (schema key, stimulus key), one sorted pass, try only
SELECT set_config('mainspring.missed', coalesce(string_agg(t.key::text, ',') FILTER (WHERE NOT t.got), ''), true) AS missed
FROM (
    SELECT k.key,
           CASE WHEN k.exclusive THEN pg_try_advisory_xact_lock($1::integer, k.key)
                ELSE pg_try_advisory_xact_lock_shared($1::integer, k.key) END AS got
    FROM (SELECT * FROM unnest($2::integer[], $3::boolean[]) u(key, exclusive) ORDER BY key OFFSET 0) k
) t
