-- purpose: list deliveries for clients, newest first: of an instance, of a sink, in a state; those after a cursor
-- caller:  store::webhook::delivery
-- index:   webhook_delivery_pkey, webhook_delivery_due, webhook_delivery_dead
-- locks:   none
-- instance: $2 is an instance. sink: $2 is the id of a sink, and $3 the state.
SELECT d.id, d.instance_id, d.event_type, d.state, d.attempts, d.due_at, d.created_at, d.ended_at, d.last_status, d.last_error,
       s.id AS sink_id, d.sink
       --[instance
FROM webhook_delivery d
LEFT JOIN webhook_sink s ON s.number = d.sink
WHERE d.instance_id = $2 AND d.tenant_id = $1 AND ($3::smallint IS NULL OR d.state = $3)
  AND ($4::timestamptz IS NULL OR (d.created_at, d.id, d.sink) < ($4, $5, $6))
ORDER BY d.created_at DESC, d.id DESC, d.sink DESC
       --]
       --[pending
FROM webhook_sink s
JOIN webhook_delivery d ON d.sink = s.number AND d.state = 0 /* pending */
WHERE s.id = $2 AND s.tenant_id = $1 AND s.deleted_at IS NULL AND $3::smallint = 0
  AND ($4::timestamptz IS NULL OR (d.due_at, d.id, d.sink) > ($4, $5, $6))
ORDER BY d.due_at, d.id, d.sink
       --]
       --[dead
FROM webhook_sink s
JOIN webhook_delivery d ON d.sink = s.number AND d.state = 2 /* dead letter */
WHERE s.id = $2 AND s.tenant_id = $1 AND s.deleted_at IS NULL AND $3::smallint = 2
  AND ($4::timestamptz IS NULL OR (d.ended_at, d.id, d.sink) < ($4, $5, $6))
ORDER BY d.ended_at DESC, d.id DESC, d.sink DESC
       --]
LIMIT $7
