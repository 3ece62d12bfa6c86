-- purpose: which of these incarnations are registered, or being removed: the locks of the others may be taken over
-- caller:  store::node
-- index:   node_pkey, removed_node_pkey
-- locks:   none
SELECT n.incarnation FROM node n WHERE n.incarnation = ANY($1)
UNION
SELECT d.incarnation FROM removed_node d WHERE d.incarnation = ANY($1)
