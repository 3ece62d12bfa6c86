-- purpose: read what is to be sent to claimed sinks: of each the oldest due deliveries, as many as it has room for and at most so
--          many bytes of payloads ($7), but at least one; of a sink that fails only one. A sink that is not returned is not this node's
--          any more, or must not be sent to
-- caller:  store::webhook::delivery
-- index:   webhook_delivery_due, webhook_sink_pkey
-- locks:   none: the claim of the sink covers its deliveries. $5 and $6: those that are being sent. $8: no pending one is due before
--          then, so that a read does not walk over what was delivered since the last vacuum
WITH flight AS MATERIALIZED (
    SELECT f.sink, f.id FROM unnest($5::integer[], $6::uuid[]) f(sink, id)
)
SELECT c.number, s.failures, r.webhooks AS revision, now() AS now, d.id, d.instance_id, d.event_type, d.payload::text AS payload, d.attempts, d.created_at,
       d.due_at
FROM unnest($2::integer[], $3::bigint[], $4::integer[], $7::bigint[], $8::timestamptz[]) c(number, claim_no, room, bytes, since)
CROSS JOIN revision r
CROSS JOIN LATERAL (
    SELECT x.failures FROM webhook_sink x
    WHERE x.number = c.number AND x.claimed_by = $1 AND x.claim_no = c.claim_no AND NOT x.paused AND x.disabled_at IS NULL
      AND x.deleted_at IS NULL AND x.retry_at <= now()
      AND (SELECT p.mode = 0 /* running */ FROM cluster_pause p WHERE p.only_row)
    LIMIT 1) s
LEFT JOIN LATERAL (
    SELECT m.*
    FROM (SELECT o.*, sum(pg_column_size(o.payload)) OVER (ORDER BY o.due_at, o.id) AS bytes,
                 row_number() OVER (ORDER BY o.due_at, o.id) AS place
          FROM (SELECT w.* FROM webhook_delivery w
                WHERE w.sink = c.number AND w.state = 0 /* pending */ AND w.due_at <= now() AND w.due_at >= coalesce(c.since, '-infinity')
                  AND CASE WHEN (w.sink, w.id) IN (SELECT f.sink, f.id FROM flight f) THEN false ELSE true END
                ORDER BY w.due_at
                LIMIT CASE WHEN s.failures > 0 THEN least(c.room, 1) ELSE c.room END) o) m
    WHERE m.place = 1 OR m.bytes <= c.bytes) d ON true
ORDER BY c.number, d.due_at
