-- purpose: release the claims of a departed incarnation, a batch at a time, with the blame for its death
-- caller:  store::depart
-- index:   work_claimed, timer_claimed
-- locks:   work by id, then timer by id; locked rows are skipped and found by the next sweep
WITH verdict AS (
    SELECT coalesce((SELECT d.crashed FROM departed d WHERE d.incarnation = $1), false)::integer AS crash
), work_held AS MATERIALIZED (
    SELECT w.tenant_id, w.id FROM work w WHERE w.claimed_by = $1
    ORDER BY w.tenant_id, w.id LIMIT 500 FOR NO KEY UPDATE SKIP LOCKED
), timer_held AS MATERIALIZED (
    SELECT t.tenant_id, t.instance_id, t.id FROM timer t WHERE t.claimed_by = $1
    ORDER BY t.tenant_id, t.instance_id, t.id LIMIT 500 FOR NO KEY UPDATE SKIP LOCKED
), work_back AS (
    UPDATE work w SET claimed_by = NULL, available_at = now(), crashes = w.crashes + v.crash
    FROM work_held h, verdict v WHERE w.tenant_id = h.tenant_id AND w.id = h.id
    RETURNING 1
), timer_back AS (
    UPDATE timer t SET claimed_by = NULL, available_at = now(), crashes = t.crashes + v.crash
    FROM timer_held h, verdict v WHERE t.tenant_id = h.tenant_id AND t.instance_id = h.instance_id AND t.id = h.id
    RETURNING 1
)
SELECT (SELECT count(*) FROM work_back) + (SELECT count(*) FROM timer_back)
