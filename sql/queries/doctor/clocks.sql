-- purpose: live nodes whose clock is not the database's
-- caller:  store::doctor::cluster
-- index:   none (a handful of rows)
-- locks:   none
SELECT format('the clock of node %s is %s s %s', n.node_id,
              round(abs(extract(epoch FROM n.clock_ahead))::numeric, 1),
              CASE WHEN n.clock_ahead > interval '0' THEN 'ahead of the database''s' ELSE 'behind the database''s' END) AS what,
       n.last_seen AS since, NULL::text AS remedy
FROM node n
WHERE n.last_seen >= clock_timestamp() - n.tolerance AND greatest(n.clock_ahead, -n.clock_ahead) > interval '2 seconds'
ORDER BY n.node_id
LIMIT 10
