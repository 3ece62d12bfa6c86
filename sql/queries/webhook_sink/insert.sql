-- purpose: register a sink, unless its id is taken or its tenant has as many as $11
-- caller:  store::webhook::sink
-- index:   webhook_sink_id
-- locks:   revision, which makes changes of sinks come one after the other
WITH changed AS (
    UPDATE revision SET webhooks = webhooks + 1 WHERE only_row RETURNING 1
), counted AS MATERIALIZED (
    SELECT count(*) AS number FROM changed
    CROSS JOIN LATERAL (SELECT 1 FROM webhook_sink s WHERE s.tenant_id = $1 AND s.deleted_at IS NULL) x
), made AS (
    INSERT INTO webhook_sink (tenant_id, id, name, url, event_types, definitions, secret, retry_for, paused, is_configured)
    SELECT $1, $2, $3, $4, $5::text[], $6::text[], $7, $8::bigint * interval '1 second', $9, $10
    FROM counted c WHERE c.number < $11::bigint
    ON CONFLICT (id, tenant_id) WHERE deleted_at IS NULL DO NOTHING
    RETURNING 1
)
SELECT EXISTS (SELECT 1 FROM made) AS made, c.number < $11::bigint AS has_room FROM counted c
