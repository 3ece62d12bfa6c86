-- purpose: whether notifications wait for a listener in a transaction, with the session that is in one for longest
-- caller:  store::doctor::server
-- index:   none: views of the server's memory and the catalog
-- locks:   none
SELECT format('the queue of notifications is %s percent full', round((q.part * 100)::numeric)) AS what, o.xact_start AS since,
       'psql "$MAINSPRING_DATABASE_URL" -c "SELECT pg_terminate_backend(' || o.pid || ')"' AS remedy
FROM (SELECT pg_notification_queue_usage() AS part) q
LEFT JOIN LATERAL (SELECT a.pid, a.xact_start FROM pg_stat_activity a
                   WHERE a.backend_type = 'client backend' AND a.pid <> pg_backend_pid() AND a.xact_start IS NOT NULL
                   ORDER BY a.xact_start LIMIT 1) o ON true
WHERE q.part > 0.25
