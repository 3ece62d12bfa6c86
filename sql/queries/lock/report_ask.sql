-- purpose: ask every node for its locks, and tell since when an answer counts
-- caller:  store::overview
-- index:   none
-- locks:   none
SELECT clock_timestamp(), pg_notify($1, '')::text
