-- purpose: pause the sinks of the settings that are not in them any more ($2: those that are), and leave them to the API: what is
--          pending for them is not lost because a node began with an older file
-- caller:  store::webhook::sink
-- index:   webhook_sink_id
-- locks:   revision, then the sinks by number
WITH changed AS (
    UPDATE revision SET webhooks = webhooks + 1 WHERE only_row RETURNING 1
), left_over AS MATERIALIZED (
    SELECT s.number FROM changed
    CROSS JOIN LATERAL (
        SELECT x.number FROM webhook_sink x
        WHERE x.tenant_id = $1 AND x.deleted_at IS NULL AND x.is_configured AND x.id <> ALL ($2::text[])
        ORDER BY x.number FOR NO KEY UPDATE) s
)
UPDATE webhook_sink s SET is_configured = false, paused = true,
                          note = CASE WHEN s.disabled_at IS NULL THEN $3 ELSE s.note END, updated_at = now()
FROM left_over l WHERE s.number = l.number
RETURNING s.id
