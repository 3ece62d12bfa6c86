-- purpose: list the incarnations that are registered, or being removed, under a node id
-- caller:  store::node
-- index:   none (a handful of rows)
-- locks:   none
SELECT n.incarnation FROM node n WHERE n.node_id = $1
UNION
SELECT d.incarnation FROM removed_node d WHERE d.node_id = $1
ORDER BY 1
