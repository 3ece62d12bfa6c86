-- purpose: request a lock report of every node; returns the time from which a report counts
-- caller:  store::lock::report
-- index:   none
-- locks:   none
SELECT clock_timestamp() AS asked_at, pg_notify($1, '')::text
