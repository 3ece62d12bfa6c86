-- purpose: try to take each key exclusively; returns those that are locked elsewhere, so that success costs no row.
--          The filter is evaluated once for each key: no LIMIT, ORDER BY or further condition here
-- caller:  lock::provider::postgres::session
-- index:   none
-- locks:   advisory (64-bit key), try only, held by the session
SELECT k AS key FROM unnest($1::bigint[]) k WHERE NOT pg_try_advisory_lock(k)
