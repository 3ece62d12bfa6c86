-- purpose: sinks of webhooks that refuse deliveries, or are gone
-- caller:  store::doctor::work
-- index:   none (a handful of rows)
-- locks:   none
SELECT format('the webhook sink %s %s%s', s.id,
              CASE WHEN s.disabled_at IS NOT NULL THEN 'is gone' ELSE 'has failed ' || s.failures || ' times in a row' END,
              coalesce(': ' || left(s.note, 200), '')) AS what,
       coalesce(s.disabled_at, s.updated_at) AS since, NULL::text AS remedy
FROM webhook_sink s
WHERE s.deleted_at IS NULL AND (s.disabled_at IS NOT NULL OR s.failures >= 3)
ORDER BY s.id
LIMIT 10
