-- purpose: try to take each key shared, as lock/take
-- caller:  lock::provider::postgres::session
-- index:   none
-- locks:   advisory (64-bit key), try only, held by the session
SELECT k AS key FROM unnest($1::bigint[]) k WHERE NOT pg_try_advisory_lock_shared(k)
