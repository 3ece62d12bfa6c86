-- purpose: read the clock of the database
-- caller:  bench::observe, from `mainspring bench failover`
-- index:   none
-- locks:   none
SELECT clock_timestamp() AS now
