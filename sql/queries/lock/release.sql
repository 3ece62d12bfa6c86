-- purpose: give keys back
-- caller:  lock::postgres, and the registration of a node
-- index:   none
-- locks:   none
SELECT k, pg_advisory_unlock(k) FROM unnest($1::bigint[]) k
