-- purpose: ask every node for its locks, and tell since when an answer counts
-- caller:  store::lock::report
-- index:   none
-- locks:   none
SELECT clock_timestamp() AS asked_at, pg_notify($1, '')::text
