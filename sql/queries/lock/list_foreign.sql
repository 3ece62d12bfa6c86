-- purpose: list the sessions that hold advisory keys of this schema ($2 and $3: the classes of its two-integer keys;
--          $4: 64-bit keys) and belong to no node: by application name, or as their role may not write what nodes
--          write. Every role may read pg_locks, and the role and application of a session in pg_stat_activity
-- caller:  store::lock
-- index:   none: both are views of the server's memory
-- locks:   none
SELECT h.class, h.key, a.pid AS process_id, coalesce(a.usename::text, '') AS user_name,
       coalesce(a.application_name, '') AS application_name
FROM (SELECT l.pid, CASE WHEN l.objsubid = 2 THEN l.classid::bigint END AS class,
             CASE WHEN l.objsubid = 2 THEN l.objid::bigint ELSE (l.classid::bigint << 32) | l.objid::bigint END AS key
      FROM pg_locks l
      WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid IN (1, 2)
        AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())) h
JOIN pg_stat_activity a ON a.pid = h.pid
WHERE (h.class IN ($2::integer::bigint & 4294967295, hashtext($3)::bigint & 4294967295)
       OR (h.class IS NULL AND h.key = ANY ($4::bigint[])))
  AND (NOT (a.application_name = 'mainspring' OR starts_with(a.application_name, $1))
       OR NOT coalesce(has_table_privilege(a.usesysid, to_regclass('node'), 'UPDATE'), true))
ORDER BY a.pid, h.class, h.key
LIMIT 1000
