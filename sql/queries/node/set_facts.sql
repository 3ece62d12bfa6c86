-- purpose: record what operators compare of a node: its version, its needs and its settings
-- caller:  store::node
-- index:   node_pkey
-- locks:   own node row
UPDATE node SET facts = $2 WHERE incarnation = $1
