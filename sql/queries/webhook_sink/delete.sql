-- purpose: delete a sink: nothing is written or sent for it any more. Its row is purged after its pending deliveries
-- caller:  store::webhook::sink
-- index:   webhook_sink_id
-- locks:   revision, then the sink
WITH changed AS (
    UPDATE revision SET webhooks = webhooks + 1 WHERE only_row RETURNING 1
)
UPDATE webhook_sink s SET deleted_at = now(), updated_at = now()
FROM changed
WHERE s.tenant_id = $1 AND s.id = $2 AND s.deleted_at IS NULL AND NOT s.is_configured
RETURNING s.number
