-- purpose: try to take each key; no WHERE, LIMIT or ORDER BY here: they could lock what they do not return
-- caller:  lock::provider::postgres::session, store::lock
-- index:   none
-- locks:   advisory (64-bit key), try only, held by the session
SELECT k AS key, pg_try_advisory_lock(k) AS taken FROM unnest($1::bigint[]) k
