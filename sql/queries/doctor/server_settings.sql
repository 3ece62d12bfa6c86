-- purpose: settings of the server with which it loses commits, or does not clean up
-- caller:  store::doctor::server
-- index:   none
-- locks:   none
SELECT s.name || ' is ' || s.setting AS what, NULL::timestamptz AS since,
       'psql "$MAINSPRING_DATABASE_URL" -c "ALTER SYSTEM SET ' || s.name || ' = on" -c "SELECT pg_reload_conf()"' AS remedy
FROM pg_settings s
WHERE s.name IN ('fsync', 'full_page_writes', 'autovacuum', 'track_counts', 'track_activities') AND s.setting = 'off'
ORDER BY s.name
