-- purpose: the same as lock_free, of keys that are held shared
-- caller:  lock::provider::postgres::session
-- index:   none
-- locks:   none
SELECT k AS key FROM unnest($1::bigint[]) k WHERE NOT pg_advisory_unlock_shared(k)
