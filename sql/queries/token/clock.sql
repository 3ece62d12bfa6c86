-- purpose: read the clock by which tokens expire
-- caller:  store::token
-- index:   none
-- locks:   none
SELECT clock_timestamp() AS now
