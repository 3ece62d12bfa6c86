-- purpose: set the activity types that published versions use and a node does not know
-- caller:  store::activity_type
-- index:   node_pkey
-- locks:   own node row
UPDATE node SET missing_activity_types = $2 WHERE incarnation = $1
