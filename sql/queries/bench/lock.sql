-- purpose: half of the plain way to lock, for comparison
-- caller:  lock::postgres::plain
-- index:   none
-- locks:   advisory (64-bit key), waits up to lock_timeout
SELECT pg_advisory_lock($1)
