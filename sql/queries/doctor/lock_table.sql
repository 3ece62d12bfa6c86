-- purpose: compare the lock table of the server with what is in it, and with what the live nodes may need
-- caller:  store::doctor::server
-- index:   none: views of the server's memory and the catalog
-- locks:   none
WITH room AS (
    SELECT current_setting('max_locks_per_transaction')::bigint
           * (current_setting('max_connections')::bigint + current_setting('max_prepared_transactions')::bigint) AS locks
), needed AS (
    SELECT coalesce(sum((n.facts->>'workers')::bigint), 0) AS locks FROM node n WHERE n.last_seen >= clock_timestamp() - n.tolerance
), taken AS (
    SELECT count(*) AS locks FROM pg_locks l WHERE NOT l.fastpath
), most AS (
    SELECT l.pid, count(*) AS locks FROM pg_locks l
    WHERE NOT l.fastpath AND l.pid IS NOT NULL GROUP BY l.pid ORDER BY count(*) DESC LIMIT 1
)
SELECT CASE WHEN t.locks > r.locks * 0.8
            THEN format('the lock table has room for about %s locks, and %s are taken, %s of them by process %s', r.locks, t.locks,
                        m.locks, m.pid)
            ELSE format('the live nodes run up to %s bursts with a lock each, and the lock table has room for about %s locks',
                        n.locks, r.locks) END AS what,
       NULL::timestamptz AS since, NULL::text AS remedy
FROM room r CROSS JOIN needed n CROSS JOIN taken t LEFT JOIN most m ON true
WHERE t.locks > r.locks * 0.8 OR n.locks > r.locks
