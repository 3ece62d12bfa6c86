-- purpose: list the rows that this incarnation has claimed, to reconcile them with those in flight
-- caller:  store::claim
-- index:   work_claimed, timer_claimed
-- locks:   none
SELECT w.tenant_id, w.instance_id, w.id AS work_id, NULL::text AS timer_id, w.claim_no FROM work w WHERE w.claimed_by = $1
UNION ALL
SELECT t.tenant_id, t.instance_id, NULL, t.id, t.claim_no FROM timer t WHERE t.claimed_by = $1
