-- purpose: record that a node hangs: it is expired from now on, and its end is no crash. One is counted against the rows
--          of the instances ($2, $3) whose bursts hang
-- caller:  store::node, from the check-in thread
-- index:   node_pkey, work_claimed, timer_claimed
-- locks:   work by id, timer by id, of which locked rows are skipped; own node row
WITH hung AS (
    UPDATE node SET hung = true, last_seen = least(last_seen, clock_timestamp() - 2 * tolerance) WHERE incarnation = $1
), hanging AS MATERIALIZED (
    SELECT h.tenant_id, h.instance_id FROM unnest($2::text[], $3::text[]) h(tenant_id, instance_id)
), work_held AS MATERIALIZED (
    SELECT w.tenant_id, w.id FROM work w JOIN hanging h USING (tenant_id, instance_id) WHERE w.claimed_by = $1
    ORDER BY w.tenant_id, w.id FOR NO KEY UPDATE OF w SKIP LOCKED
), timer_held AS MATERIALIZED (
    SELECT t.tenant_id, t.instance_id, t.id FROM timer t JOIN hanging h USING (tenant_id, instance_id)
    WHERE t.claimed_by = $1
    ORDER BY t.tenant_id, t.instance_id, t.id FOR NO KEY UPDATE OF t SKIP LOCKED
), timer_counted AS (
    UPDATE timer t SET crashes = t.crashes + 1
    FROM timer_held h WHERE t.tenant_id = h.tenant_id AND t.instance_id = h.instance_id AND t.id = h.id
)
UPDATE work w SET crashes = w.crashes + 1 FROM work_held h WHERE w.tenant_id = h.tenant_id AND w.id = h.id
