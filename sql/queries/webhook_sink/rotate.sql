-- purpose: give a sink another secret; the one before signs as well for $4 seconds
-- caller:  store::webhook::sink
-- index:   webhook_sink_id
-- locks:   revision, then the sink
WITH changed AS (
    UPDATE revision SET webhooks = webhooks + 1 WHERE only_row RETURNING 1
)
UPDATE webhook_sink s
SET previous_secret = CASE WHEN $4::bigint > 0 THEN s.secret END,
    previous_until = CASE WHEN $4::bigint > 0 THEN now() + $4::bigint * interval '1 second' END,
    secret = $3, updated_at = now()
FROM changed
WHERE s.tenant_id = $1 AND s.id = $2 AND s.deleted_at IS NULL AND NOT s.is_configured
RETURNING s.number
