-- purpose: set the roles of a node, and what keeps its locks
-- caller:  store::node
-- index:   node_pkey
-- locks:   own node row
UPDATE node SET roles = $2, lock_domain = $3 WHERE incarnation = $1
