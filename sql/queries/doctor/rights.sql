-- purpose: what the roles that nodes log in as, and this one, may not do with the tables and functions of the schema
-- caller:  store::doctor::tables
-- index:   none: views of the server's memory and the catalog
-- locks:   none
-- $1: what the names of the sessions of nodes begin with.
WITH who AS MATERIALIZED (
    SELECT r.oid, r.rolname FROM pg_roles r
    WHERE r.rolname = current_user
       OR r.oid IN (SELECT a.usesysid FROM pg_stat_activity a WHERE starts_with(coalesce(a.application_name, ''), $1))
), refused AS (
    SELECT w.rolname, lower(p.name) || ' ' || c.relname AS what
    FROM who w
    CROSS JOIN pg_class c
    CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) p(name)
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
      AND (p.name = 'SELECT' OR c.relname <> 'refinery_schema_history')
      AND NOT has_table_privilege(w.oid, c.oid, p.name)
    UNION ALL
    SELECT w.rolname, 'execute ' || f.oid::regprocedure
    FROM who w
    CROSS JOIN pg_proc f
    WHERE f.pronamespace = current_schema()::regnamespace AND NOT has_function_privilege(w.oid, f.oid, 'EXECUTE')
    UNION ALL
    SELECT w.rolname, 'use sequence ' || c.relname
    FROM who w
    CROSS JOIN pg_class c
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'S' AND NOT has_sequence_privilege(w.oid, c.oid, 'USAGE')
)
SELECT format('role %s may not %s', r.rolname,
              left(string_agg(r.what, ', ' ORDER BY r.what), 300)
                  || CASE WHEN length(string_agg(r.what, ', ')) > 300 THEN '…' ELSE '' END) AS what,
       NULL::timestamptz AS since,
       -- A member of the owner has what the owner has, which must not be all of the server.
       (SELECT CASE WHEN o.rolsuper
                    THEN format('psql "$MAINSPRING_DATABASE_URL" -c ''GRANT USAGE ON SCHEMA %1$I TO %2$I'' '
                                '-c ''GRANT ALL ON ALL TABLES IN SCHEMA %1$I TO %2$I'' '
                                '-c ''GRANT ALL ON ALL SEQUENCES IN SCHEMA %1$I TO %2$I'' '
                                '-c ''GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA %1$I TO %2$I''',
                                s.nspname, r.rolname)
                    ELSE format('psql "$MAINSPRING_DATABASE_URL" -c ''GRANT %I TO %I''', o.rolname, r.rolname) END
        FROM pg_namespace s JOIN pg_roles o ON o.oid = s.nspowner WHERE s.nspname = current_schema()) AS remedy
FROM refused r
GROUP BY r.rolname
ORDER BY r.rolname
LIMIT 10
