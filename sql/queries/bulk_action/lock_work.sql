-- purpose: lock the dead letters, work and timers of the instances of a page; waits for a commit or a replay in flight
-- caller:  store::bulk_action, in the transaction of a page
-- index:   dead_letter_instance, work_instance, timer_pkey
-- locks:   dead letters by id, then work by id, then timer by id
WITH dead_letter_held AS MATERIALIZED (
    SELECT d.id FROM dead_letter d WHERE d.tenant_id = $1 AND d.instance_id = ANY ($2::text[]) ORDER BY d.tenant_id, d.id FOR UPDATE
), work_held AS MATERIALIZED (
    SELECT w.id FROM work w
    WHERE w.tenant_id = $1 AND w.instance_id = ANY ($2) AND (SELECT count(*) FROM dead_letter_held) >= 0
    ORDER BY w.tenant_id, w.id FOR UPDATE
), timer_held AS MATERIALIZED (
    SELECT t.id FROM timer t
    WHERE t.tenant_id = $1 AND t.instance_id = ANY ($2) AND (SELECT count(*) FROM work_held) >= 0
    ORDER BY t.tenant_id, t.instance_id, t.id FOR UPDATE
)
SELECT (SELECT count(*) FROM timer_held)
