-- purpose: read the state of one instance if another one started it, for what it knows of its parent
-- caller:  store::instance
-- index:   instance_pkey
-- locks:   none
SELECT whole_state(i) AS state
FROM instance i
WHERE i.tenant_id = $1 AND i.id = $2 AND i.parent_instance_id IS NOT NULL
