-- purpose: make dead letters of a sink pending again, under their ids: one ($3), or the oldest $4 of them; of a disabled sink none
-- caller:  store::webhook::delivery
-- index:   webhook_sink_id, webhook_delivery_dead
-- locks:   the deliveries; those that another replay has locked are skipped
WITH sink AS MATERIALIZED (
    SELECT s.number, s.retry_for, s.disabled_at IS NOT NULL AS is_disabled FROM webhook_sink s WHERE s.id = $2 AND s.tenant_id = $1 AND s.deleted_at IS NULL
), dead AS MATERIALIZED (
    SELECT l.place, s.retry_for
    FROM sink s
    CROSS JOIN LATERAL (
        SELECT d.ctid AS place FROM webhook_delivery d
        WHERE d.sink = s.number AND d.state = 2 /* dead letter */ AND ($3::uuid IS NULL OR d.id = $3)
        ORDER BY d.ended_at LIMIT $4
        FOR UPDATE SKIP LOCKED) l
    WHERE NOT s.is_disabled
), replayed AS (
    UPDATE webhook_delivery d
    SET state = 0 /* pending */, attempts = 0, due_at = now(), ended_at = NULL, expires_at = now() + e.retry_for
    FROM dead e WHERE d.ctid = e.place
    RETURNING 1
)
SELECT (SELECT s.is_disabled FROM sink s) AS is_disabled, (SELECT count(*) FROM replayed) AS replayed
