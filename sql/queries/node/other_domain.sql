-- purpose: a live node whose locks are kept elsewhere
-- caller:  store::node
-- index:   none (a handful of rows)
-- locks:   none
SELECT n.node_id, n.lock_domain
FROM node n
WHERE n.incarnation <> $1 AND n.lock_domain <> '' AND n.lock_domain <> $2
  AND n.last_seen > clock_timestamp() - n.tolerance
ORDER BY n.incarnation
LIMIT 1
