-- purpose: give keys back
-- caller:  lock::provider::postgres, cluster::membership
-- index:   none
-- locks:   none
SELECT k, pg_advisory_unlock(k) FROM unnest($1::bigint[]) k
