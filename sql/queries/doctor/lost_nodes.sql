-- purpose: nodes that are expired, hung, or not removed to the end
-- caller:  store::doctor::cluster
-- index:   none (a handful of rows)
-- locks:   none
SELECT format('node %s (incarnation %s) %s', n.node_id, n.incarnation,
              CASE WHEN n.hung THEN 'hangs' ELSE 'has not checked in, and no node has removed it' END) AS what,
       n.last_seen AS since, NULL::text AS remedy
FROM node n
WHERE n.hung OR n.last_seen < clock_timestamp() - n.tolerance OR n.last_seen > clock_timestamp() + n.tolerance
UNION ALL
SELECT format('node %s (incarnation %s) is being removed, and its claims are not released yet', d.node_id, d.incarnation),
       d.removed_at, NULL
FROM removed_node d WHERE d.removed_at < clock_timestamp() - interval '10 seconds'
ORDER BY 2
LIMIT 10
