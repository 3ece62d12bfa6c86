-- purpose: lock and unlock in one statement, which protects nothing: the lower bound of a comparison
-- caller:  bench::locks::unbatched
-- index:   none
-- locks:   advisory (64-bit key), waits up to lock_timeout
SELECT pg_advisory_lock($1), pg_advisory_unlock($1) AS freed
