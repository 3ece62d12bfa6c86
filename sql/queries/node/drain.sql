-- purpose: mark a node as about to stop
-- caller:  store::node
-- index:   node_pkey
-- locks:   own node row
UPDATE node SET draining = true WHERE incarnation = $1
