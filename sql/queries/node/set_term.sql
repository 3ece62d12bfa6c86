-- purpose: a node says that it is the active scheduler, in which term, or that it is no more
-- caller:  store::node
-- index:   node_pkey
-- locks:   own node row
UPDATE node SET scheduler_term = $2 WHERE incarnation = $1
