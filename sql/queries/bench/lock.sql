-- purpose: lock with one statement per key, for comparison
-- caller:  bench::locks::unbatched
-- index:   none
-- locks:   advisory (64-bit key), waits up to lock_timeout
SELECT pg_advisory_lock($1)
