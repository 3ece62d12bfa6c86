-- purpose: a node says which activity types it does not know that published versions use
-- caller:  store::activity_type
-- index:   node_pkey
-- locks:   own node row
UPDATE node SET missing_activity_types = $2 WHERE incarnation = $1
