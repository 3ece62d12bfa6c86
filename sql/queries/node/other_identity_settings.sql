-- purpose: the identity settings of the other live nodes, as nodes compare them; null: not recorded yet
-- caller:  store::node
-- index:   none (a handful of rows)
-- locks:   none
SELECT n.node_id, n.identity_settings
FROM node n
WHERE n.incarnation <> $1 AND n.last_seen > clock_timestamp() - n.tolerance
ORDER BY n.incarnation
