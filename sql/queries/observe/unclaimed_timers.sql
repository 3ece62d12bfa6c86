-- purpose: count the delays that nobody has in hands
-- caller:  store::observe, from `mainspring bench timers`
-- index:   timer_due
-- locks:   none
SELECT count(*) AS count FROM timer t WHERE t.claimed_by IS NULL
