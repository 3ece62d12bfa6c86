-- purpose: the services of the other live nodes, as nodes compare them
-- caller:  store::node
-- index:   none (a handful of rows)
-- locks:   none
SELECT n.node_id, n.lock_domain, n.signal_domain, n.wake_domain
FROM node n
WHERE n.incarnation <> $1 AND n.last_seen > clock_timestamp() - n.tolerance
ORDER BY n.incarnation
