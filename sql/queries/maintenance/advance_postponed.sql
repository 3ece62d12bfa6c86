-- purpose: make rows due that wait for longer than any backoff: they were postponed, or accepted, before the clock
--          was stepped back. Timers keep the time that they are due at. Webhooks rest for an hour at most
-- caller:  store::maintenance
-- index:   work_ready, timer_postponed, webhook_delivery_due
-- locks:   work, then timer, in the order of their times, then sinks and deliveries of webhooks; locked ones are skipped
WITH work_far AS MATERIALIZED (
    SELECT w.tenant_id, w.id FROM work w
    WHERE w.claimed_by IS NULL AND w.available_at > now() + $1::bigint * interval '1 microsecond'
    ORDER BY w.available_at, w.id LIMIT 1000 FOR NO KEY UPDATE SKIP LOCKED
), timer_far AS MATERIALIZED (
    SELECT t.tenant_id, t.instance_id, t.id FROM timer t
    WHERE t.claimed_by IS NULL AND t.available_at > t.due
      AND t.available_at > now() + $1::bigint * interval '1 microsecond'
    ORDER BY t.available_at LIMIT 1000 FOR NO KEY UPDATE SKIP LOCKED
), sink_far AS MATERIALIZED (
    SELECT s.number FROM webhook_sink s WHERE s.retry_at > now() + interval '1 hour' FOR NO KEY UPDATE SKIP LOCKED
), delivery_far AS MATERIALIZED (
    SELECT l.place
    FROM webhook_sink s
    CROSS JOIN LATERAL (
        SELECT d.ctid AS place FROM webhook_delivery d
        WHERE d.sink = s.number AND d.state = 0 /* pending */ AND d.due_at > now() + interval '1 hour'
        LIMIT 1000 FOR UPDATE SKIP LOCKED) l
    LIMIT 1000
), work_due AS (
    UPDATE work w SET available_at = now() FROM work_far f WHERE w.id = f.id AND w.tenant_id = f.tenant_id RETURNING 1
), timer_due AS (
    UPDATE timer t SET available_at = greatest(t.due, now())
    FROM timer_far f WHERE t.instance_id = f.instance_id AND t.id = f.id AND t.tenant_id = f.tenant_id RETURNING 1
), sink_due AS (
    UPDATE webhook_sink s SET retry_at = now() FROM sink_far f WHERE s.number = f.number RETURNING 1
), delivery_due AS (
    UPDATE webhook_delivery d SET due_at = now() WHERE d.ctid = ANY (ARRAY(SELECT f.place FROM delivery_far f)) RETURNING 1
)
SELECT (SELECT count(*) FROM work_due) + (SELECT count(*) FROM timer_due)
       + (SELECT count(*) FROM sink_due) + (SELECT count(*) FROM delivery_due) AS advanced
