-- purpose: list the locks that nodes hold in the server, with the number of sessions that wait for each. Every role
--          may read pg_locks, and application_name in pg_stat_activity
-- caller:  store::lock::report
-- index:   none: both are views of the server's memory
-- locks:   none
WITH held AS MATERIALIZED (
    SELECT l.pid, (l.classid::bigint << 32) | l.objid::bigint AS key, l.mode, l.granted
    FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.objsubid = 1
      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
)
SELECT split_part(a.application_name, '/', 3)::bigint AS incarnation, h.key, h.mode = 'ShareLock' AS shared,
       (SELECT count(*) FROM held w WHERE w.key = h.key AND NOT w.granted) AS waiting
FROM held h
JOIN pg_stat_activity a ON a.pid = h.pid
WHERE h.granted AND starts_with(a.application_name, $1) AND split_part(a.application_name, '/', 3) ~ '^[0-9]{1,18}$'
ORDER BY 1, 2
