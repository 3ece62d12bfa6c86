-- purpose: read the time by which tokens expire
-- caller:  store::token
-- index:   none
-- locks:   none
SELECT clock_timestamp() AS now
