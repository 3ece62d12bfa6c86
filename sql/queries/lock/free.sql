-- purpose: release keys that are held exclusively; returns those that were not held, of which there are none
-- caller:  lock::provider::postgres::session
-- index:   none
-- locks:   none
SELECT k AS key FROM unnest($1::bigint[]) k WHERE NOT pg_advisory_unlock(k)
