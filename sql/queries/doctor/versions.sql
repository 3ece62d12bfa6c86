-- purpose: whether live nodes have several versions of the program
-- caller:  store::doctor::cluster
-- index:   none (a handful of rows)
-- locks:   none
SELECT 'live nodes have several versions: ' || string_agg(v.version || ' (' || v.nodes || ')', ', ' ORDER BY v.version) AS what,
       max(v.since) AS since, NULL::text AS remedy
FROM (SELECT coalesce(n.facts->>'version', 'unknown') AS version, string_agg(n.node_id, ', ' ORDER BY n.node_id) AS nodes,
             min(n.started_at) AS since
      FROM node n WHERE n.last_seen >= clock_timestamp() - n.tolerance GROUP BY 1) v
HAVING count(*) > 1
