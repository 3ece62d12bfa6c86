-- purpose: claim sinks that have deliveries to be sent, and that no node sends to: at most $2 of them. While the cluster is
--          paused none is claimed. $3: those that this node holds; another one that has its claim is one whose answer was lost,
--          and is claimed again
-- caller:  store::webhook::delivery
-- index:   webhook_delivery_due, webhook_sink_pkey
-- locks:   sinks by number; locked ones are skipped
-- A sink that fails costs nothing until its next try: none of its deliveries is looked at.
WITH ready AS MATERIALIZED (
    SELECT s.number
    FROM webhook_sink s
    WHERE (coalesce(s.claimed_by, 0) = 0 OR s.claimed_by = $1 AND s.number <> ALL ($3::integer[]))
      AND NOT s.paused AND s.disabled_at IS NULL AND s.deleted_at IS NULL AND s.retry_at <= now()
      AND (SELECT true FROM webhook_delivery d
           WHERE d.sink = s.number AND d.state = 0 /* pending */ AND d.due_at <= now() LIMIT 1)
      AND (SELECT p.mode = 0 /* running */ FROM cluster_pause p WHERE p.only_row)
    ORDER BY s.number LIMIT $2
    FOR NO KEY UPDATE OF s SKIP LOCKED
)
UPDATE webhook_sink s SET claimed_by = $1, claim_no = s.claim_no + 1
FROM ready r WHERE s.number = r.number
RETURNING s.number, s.claim_no
