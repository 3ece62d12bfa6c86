-- purpose: read the versions of instances that are observed
-- caller:  store::instance
-- index:   instance_pkey
-- locks:   none
SELECT i.tenant_id, i.id, i.version
FROM unnest($1::text[], $2::text[]) u(tenant_id, id)
JOIN instance i ON i.tenant_id = u.tenant_id AND i.id = u.id
