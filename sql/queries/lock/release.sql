-- purpose: release keys
-- caller:  store::lock
-- index:   none
-- locks:   none
SELECT k, pg_advisory_unlock(k) FROM unnest($1::bigint[]) k
