-- purpose: unlock with one statement per key, for comparison
-- caller:  bench::locks::unbatched
-- index:   none
-- locks:   none
SELECT pg_advisory_unlock($1) AS freed
