-- purpose: delete a sink: nothing is written or sent for it any more. Its row is purged after its pending deliveries
-- caller:  store::webhook::sink
-- index:   webhook_sink_id
-- locks:   revision, then the sink
-- $3: one of the settings. $4: for each of its own settings that are left, all others of the settings go.
WITH changed AS (
    UPDATE revision SET webhooks = webhooks + 1 WHERE only_row RETURNING 1
)
UPDATE webhook_sink s SET deleted_at = now(), updated_at = now()
FROM changed
WHERE s.tenant_id = $1 AND s.deleted_at IS NULL AND s.is_configured = $3
  AND CASE WHEN $4::text[] IS NULL THEN s.id = $2 ELSE s.id <> ALL ($4::text[]) END
RETURNING s.number
