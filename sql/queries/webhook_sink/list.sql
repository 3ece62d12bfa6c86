-- purpose: read all sinks with their secrets, and the revision that they have, for the cache of a node
-- caller:  store::webhook::sink
-- index:   webhook_sink is read whole: the API bounds how many there are
-- locks:   none
SELECT r.webhooks AS revision, s.number, s.tenant_id, s.id, s.url, s.event_types, s.definitions, s.paused, s.secret,
       CASE WHEN s.previous_until > now() THEN s.previous_secret END AS previous_secret,
       CASE WHEN s.previous_until > now() THEN (extract(epoch FROM s.previous_until - now()) * 1000000)::bigint END AS previous_for
FROM revision r
LEFT JOIN webhook_sink s ON s.deleted_at IS NULL AND s.disabled_at IS NULL
ORDER BY s.number
