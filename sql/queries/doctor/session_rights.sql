-- purpose: whether the owner of the schema may see and end the sessions of the roles that nodes log in as
-- caller:  store::doctor::tables
-- index:   none: views of the server's memory and the catalog
-- locks:   none
-- $1: what the names of the sessions of nodes begin with.
SELECT format('role %s, which owns the schema, may not %s the sessions of role %s', o.rolname,
              CASE WHEN sees THEN 'end' ELSE 'see' END, r.rolname) AS what,
       NULL::timestamptz AS since,
       format('psql "$MAINSPRING_DATABASE_URL" -c ''GRANT pg_read_all_stats, pg_signal_backend TO %I''', o.rolname) AS remedy
FROM pg_namespace s
JOIN pg_roles o ON o.oid = s.nspowner
JOIN pg_roles r ON r.oid IN (SELECT a.usesysid FROM pg_stat_activity a WHERE starts_with(coalesce(a.application_name, ''), $1))
CROSS JOIN LATERAL (SELECT o.rolsuper OR pg_has_role(o.oid, r.oid, 'USAGE') AS has_role) h
CROSS JOIN LATERAL (SELECT has_role OR pg_has_role(o.oid, 'pg_read_all_stats', 'USAGE') AS sees) v
WHERE s.nspname = current_schema()
  AND NOT (sees AND (has_role OR pg_has_role(o.oid, 'pg_signal_backend', 'USAGE')))
ORDER BY r.rolname
LIMIT 10
