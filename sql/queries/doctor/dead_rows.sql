-- purpose: tables with more dead rows than a vacuum should leave
-- caller:  store::doctor::tables
-- index:   none: views of the server's memory and the catalog
-- locks:   none
SELECT format('%s has %s dead rows beside %s live ones', s.relname, s.n_dead_tup, s.n_live_tup) AS what,
       greatest(s.last_vacuum, s.last_autovacuum) AS since, NULL::text AS remedy, s.relname::text AS object
FROM pg_stat_user_tables s
WHERE s.schemaname = current_schema() AND s.n_dead_tup > 20000 AND s.n_dead_tup > s.n_live_tup / 2
ORDER BY s.n_dead_tup DESC
LIMIT 10
