-- purpose: read the clock of the database
-- caller:  bench::queries, from `mainspring bench failover`
-- index:   none
-- locks:   none
SELECT clock_timestamp() AS now
