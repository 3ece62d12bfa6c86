-- purpose: read the versions of instances that are observed
-- caller:  store::instance
-- index:   instance_pkey
-- locks:   none
SELECT i.id, i.version
FROM unnest($2::text[]) u(id)
JOIN instance i ON i.id = u.id AND i.tenant_id = $1
