-- purpose: count the timers that no node holds a claim on
-- caller:  bench::queries, from `mainspring bench timers`
-- index:   timer_due
-- locks:   none
SELECT count(*) AS count FROM timer t WHERE t.claimed_by IS NULL
