-- purpose: mark what was sent: delivered, to be tried again, or given up; and what the round says of each sink: that it takes
--          deliveries, that it fails (and waits, $5 microseconds), or that it is gone ($6: why)
-- caller:  store::webhook::delivery
-- index:   webhook_sink_pkey, webhook_delivery_pkey
-- locks:   revision if a sink is gone, then sinks by number, then deliveries, which no other statement waits for
-- $4: 0 nothing (it refuses what it was sent), 1 success, 2 failure, 3 gone. $10: 1 delivered, 0 to be tried after $13 microseconds, 2 given up.
-- A round that was sent before the sink began to wait counts once, and ends no wait; one that was answered after it was disabled
-- does not enable it. What was given up meanwhile and has arrived is delivered, and its payload is needed no more.
WITH gone AS MATERIALIZED (
    -- First, as each statement that changes sinks locks it first.
    UPDATE revision SET webhooks = webhooks + 1 WHERE only_row AND 3 = ANY ($4::smallint[]) RETURNING 1
), owned AS MATERIALIZED (
    SELECT s.number, c.verdict, c.pause, c.note
    FROM unnest($2::integer[], $3::bigint[], $4::smallint[], $5::bigint[], $6::text[]) c(number, claim_no, verdict, pause, note)
    JOIN webhook_sink s ON s.number = c.number AND s.claimed_by = $1 AND s.claim_no = c.claim_no
    WHERE (SELECT count(*) FROM gone) >= 0
    ORDER BY s.number
    FOR NO KEY UPDATE OF s
), place AS MATERIALIZED (
    -- Not locked, which would be one more write of each row: one that another statement changes meanwhile is not marked, and if it
    -- is still pending it is sent again.
    SELECT l.place, r.state, r.status, r.error, r.delay
    FROM unnest($7::integer[], $8::text[], $9::uuid[], $10::smallint[], $11::smallint[], $12::text[], $13::bigint[])
        r(sink, instance_id, id, state, status, error, delay)
    CROSS JOIN LATERAL (
        SELECT d.ctid AS place FROM webhook_delivery d
        WHERE d.instance_id = r.instance_id AND d.id = r.id AND d.sink = r.sink
          AND (d.state = 0 /* pending */ OR d.state = 2 /* dead letter */ AND r.state = 1 /* delivered */) LIMIT 1) l
    WHERE CASE WHEN r.sink IN (SELECT o.number FROM owned o) THEN true ELSE false END
), ended AS (
    UPDATE webhook_delivery d
    SET attempts = d.attempts + 1, last_status = p.status, last_error = p.error,
        payload = CASE WHEN p.state = 1 /* delivered */ THEN NULL ELSE d.payload END,
        state = CASE WHEN p.state = 0 /* pending */ AND now() + p.delay * interval '1 microsecond' > d.expires_at THEN 2 /* dead letter */
                     ELSE p.state END,
        due_at = CASE WHEN p.state = 0 /* pending */ THEN now() + p.delay * interval '1 microsecond' ELSE d.due_at END,
        ended_at = CASE WHEN p.state = 0 /* pending */ AND now() + p.delay * interval '1 microsecond' <= d.expires_at THEN NULL ELSE now() END,
        expires_at = CASE WHEN p.state = 1 /* delivered */ THEN now() + $14::bigint * interval '1 microsecond'
                          WHEN p.state = 2 /* dead letter */ OR now() + p.delay * interval '1 microsecond' > d.expires_at
                          THEN now() + $15::bigint * interval '1 microsecond' ELSE d.expires_at END
    FROM place p WHERE d.ctid = p.place
    RETURNING d.state
), judged AS (
    UPDATE webhook_sink s
    SET failures = CASE WHEN o.verdict = 1 THEN 0 WHEN s.retry_at <= now() THEN s.failures + 1 ELSE s.failures END,
        retry_at = CASE WHEN o.verdict = 1 THEN now()
                        WHEN s.retry_at <= now() THEN now() + o.pause * interval '1 microsecond' ELSE s.retry_at END,
        note = CASE WHEN o.verdict = 1 THEN NULL ELSE o.note END,
        disabled_at = CASE WHEN o.verdict = 3 THEN coalesce(s.disabled_at, now()) END
    FROM owned o
    WHERE s.number = o.number AND (s.disabled_at IS NULL OR o.verdict = 3)
      AND (o.verdict >= 2 OR o.verdict = 1 AND s.failures > 0 AND s.retry_at <= now())
)
SELECT count(*) AS dead_letters FROM ended e WHERE e.state = 2 /* dead letter */
