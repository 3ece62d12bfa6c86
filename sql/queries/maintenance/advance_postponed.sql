-- purpose: make rows due that wait for longer than any backoff: they were postponed, or accepted, before the clock
--          was stepped back. Timers keep the time that they are due at
-- caller:  store::maintenance
-- index:   work_ready, timer_postponed
-- locks:   work, then timer, in the order of their times; locked ones are skipped
WITH work_far AS MATERIALIZED (
    SELECT w.tenant_id, w.id FROM work w
    WHERE w.claimed_by IS NULL AND w.available_at > now() + $1::bigint * interval '1 microsecond'
    ORDER BY w.available_at, w.id LIMIT 1000 FOR NO KEY UPDATE SKIP LOCKED
), timer_far AS MATERIALIZED (
    SELECT t.tenant_id, t.instance_id, t.id FROM timer t
    WHERE t.claimed_by IS NULL AND t.available_at > t.due
      AND t.available_at > now() + $1::bigint * interval '1 microsecond'
    ORDER BY t.available_at LIMIT 1000 FOR NO KEY UPDATE SKIP LOCKED
), work_due AS (
    UPDATE work w SET available_at = now() FROM work_far f WHERE w.id = f.id AND w.tenant_id = f.tenant_id RETURNING 1
), timer_due AS (
    UPDATE timer t SET available_at = greatest(t.due, now())
    FROM timer_far f WHERE t.instance_id = f.instance_id AND t.id = f.id AND t.tenant_id = f.tenant_id RETURNING 1
)
SELECT (SELECT count(*) FROM work_due) + (SELECT count(*) FROM timer_due) AS advanced
