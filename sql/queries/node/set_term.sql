-- purpose: set the term in which a node is the leader of the schedulers; null: it is not
-- caller:  store::node
-- index:   node_pkey
-- locks:   own node row
UPDATE node SET scheduler_term = $2 WHERE incarnation = $1
