-- purpose: set the roles of a node, the domains of its services, and digests of its identity settings
-- caller:  store::node
-- index:   node_pkey
-- locks:   own node row
UPDATE node SET roles = $2, lock_domain = $3, signal_domain = $4, wake_domain = $5, identity_settings = $6
WHERE incarnation = $1
