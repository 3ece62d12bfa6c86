-- purpose: compare the connections that the live nodes may open with what the server, the database and the role allow
-- caller:  store::doctor::server
-- index:   none (a handful of rows)
-- locks:   none
-- $1: what the names of the sessions of nodes begin with.
WITH needed AS (
    SELECT count(*) AS nodes, sum((n.facts->>'connections')::bigint) AS connections
    FROM node n WHERE n.last_seen >= clock_timestamp() - n.tolerance
), others AS (
    SELECT count(*) AS connections FROM pg_stat_activity a
    WHERE a.backend_type = 'client backend' AND a.pid <> pg_backend_pid() AND NOT starts_with(coalesce(a.application_name, ''), $1)
), room AS (
    SELECT least(current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint
                     - coalesce(current_setting('reserved_connections', true), '0')::bigint - o.connections,
                 (SELECT nullif(d.datconnlimit, -1) FROM pg_database d WHERE d.datname = current_database()),
                 (SELECT nullif(r.rolconnlimit, -1) FROM pg_roles r WHERE r.rolname = current_user)) AS connections,
           o.connections AS others
    FROM others o
)
SELECT format('the %s live nodes open up to %s connections, and there is room for %s beside the %s of other programs',
              n.nodes, n.connections, r.connections, r.others) AS what,
       NULL::timestamptz AS since, NULL::text AS remedy
FROM needed n, room r
WHERE n.connections > r.connections
