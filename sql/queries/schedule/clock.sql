-- purpose: read the clock, after the schedules are locked
-- caller:  store::schedule
-- index:   none
-- locks:   none
SELECT clock_timestamp() AS now
