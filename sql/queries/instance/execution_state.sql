-- purpose: read the status of one instance, for clients that poll it
-- caller:  store::instance
-- index:   instance_pkey
-- locks:   none
SELECT i.status, i.sub_status, i.updated_at
FROM instance i
WHERE i.tenant_id = $1 AND i.id = $2
