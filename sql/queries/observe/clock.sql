-- purpose: read the database's clock
-- caller:  store::observe, from `mainspring bench failover`
-- index:   none
-- locks:   none
SELECT clock_timestamp() AS now
