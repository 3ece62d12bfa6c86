-- purpose: list removals that were not completed: the node that began one may have crashed
-- caller:  store::node::removal
-- index:   removed_node_pkey
-- locks:   none
SELECT d.incarnation FROM removed_node d ORDER BY d.incarnation
