-- purpose: write the deliveries of what the bursts of a batch caused: one for each event and each sink that wants it. Only of
--          bursts that the batch has written, in the statement before
-- caller:  store::commit::deliveries, after the batch and in its transaction; only where there are events
-- index:   instance_pkey, webhook_delivery_pkey
-- locks:   none
INSERT INTO webhook_delivery (id, sink, tenant_id, instance_id, event_type, payload, expires_at)
SELECT d.id, s.number, d.tenant_id, d.instance_id, d.event_type, d.payload, now() + s.retry_for
FROM unnest($1::commit_delivery[]) d
CROSS JOIN LATERAL (
    SELECT i.last_burst FROM instance i WHERE i.id = d.instance_id AND i.tenant_id = d.tenant_id LIMIT 1) w
JOIN webhook_sink s ON s.tenant_id = d.tenant_id AND s.deleted_at IS NULL AND s.disabled_at IS NULL
    AND (s.event_types = '{}' OR d.event_type = ANY (s.event_types))
    AND (s.definitions = '{}' OR d.definition_id = ANY (s.definitions))
WHERE w.last_burst = d.burst
ON CONFLICT DO NOTHING
