-- purpose: read whether anything is still claimed by an incarnation, locked rows included
-- caller:  store::node::removal
-- index:   work_claimed, timer_claimed, webhook_sink_claimed
-- locks:   none
SELECT EXISTS (SELECT 1 FROM work w WHERE w.claimed_by = $1)
       OR EXISTS (SELECT 1 FROM timer t WHERE t.claimed_by = $1)
       OR EXISTS (SELECT 1 FROM webhook_sink s WHERE s.claimed_by = $1) AS remains
