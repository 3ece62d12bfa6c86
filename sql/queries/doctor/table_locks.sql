-- purpose: sessions of no node that hold a lock on a whole table of the schema for long
-- caller:  store::doctor::tables
-- index:   none: views of the server's memory and the catalog
-- locks:   none
-- $1: what the names of the sessions of nodes begin with; $2: microseconds.
SELECT format('session %s of role %s (%s) holds %s on %s', a.pid, a.usename, coalesce(nullif(a.application_name, ''), 'no name'),
              l.mode, string_agg(DISTINCT c.relname, ', ' ORDER BY c.relname)) AS what,
       a.xact_start AS since, format('psql "$MAINSPRING_DATABASE_URL" -c "SELECT pg_terminate_backend(%s)"', a.pid) AS remedy
FROM pg_locks l
JOIN pg_class c ON c.oid = l.relation AND c.relnamespace = current_schema()::regnamespace
JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'relation' AND l.granted
  AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
  AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
  AND NOT starts_with(coalesce(a.application_name, ''), $1)
  AND a.xact_start < clock_timestamp() - $2::bigint * interval '1 microsecond'
GROUP BY a.pid, a.usename, a.application_name, a.xact_start, l.mode
ORDER BY a.xact_start
LIMIT 10
