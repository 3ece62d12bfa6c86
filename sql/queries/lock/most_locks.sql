-- purpose: name the session that has most entries in the server's full lock table; the view of sessions would read the roles,
--          whose lock needs an entry of that table
-- caller:  lock::provider::postgres::session
-- index:   none
-- locks:   none on shared tables
SELECT held.pid, held.locks, coalesce(session.usesysid::bigint, 0) AS role, held.pid = pg_backend_pid() AS own
FROM (SELECT pid, count(*) AS locks FROM pg_locks WHERE NOT fastpath AND pid IS NOT NULL
      GROUP BY pid ORDER BY count(*) DESC LIMIT 1) held
LEFT JOIN pg_stat_get_activity(NULL) session ON session.pid = held.pid
