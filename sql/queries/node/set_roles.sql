-- purpose: set the roles of a node
-- caller:  store::node
-- index:   node_pkey
-- locks:   own node row
UPDATE node SET roles = $2 WHERE incarnation = $1
