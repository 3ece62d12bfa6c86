-- purpose: try to take the lock of migrations
-- caller:  db::migrate
-- index:   none
-- locks:   advisory (schema key, 1), held until the session ends, try only
SELECT pg_try_advisory_lock($1::integer, 1) AS taken
