-- purpose: read sinks as the API shows them, in the order of their ids: all, or that of an id, with how much waits for it
-- caller:  store::webhook::sink
-- index:   webhook_sink_id
-- locks:   none
SELECT s.id, s.name, s.url, s.event_types, s.definitions, s.is_configured, s.paused, s.disabled_at, s.note, s.created_at,
       s.updated_at, s.failures, s.retry_at,
       (extract(epoch FROM s.retry_for))::bigint AS retry_for,
       CASE WHEN s.previous_until > now() THEN s.previous_until END AS previous_until,
       CASE WHEN $2::text IS NOT NULL THEN
           (SELECT count(*) FROM (SELECT 1 FROM webhook_delivery d WHERE d.sink = s.number AND d.state = 0 /* pending */
                                  LIMIT 10001) p) END AS pending,
       CASE WHEN $2::text IS NOT NULL THEN
           (SELECT count(*) FROM (SELECT 1 FROM webhook_delivery d WHERE d.sink = s.number AND d.state = 2 /* dead letter */
                                  LIMIT 10001) p) END AS dead_letters
FROM webhook_sink s
WHERE s.tenant_id = $1 AND s.deleted_at IS NULL AND ($2::text IS NULL OR s.id = $2)
ORDER BY s.id
