-- purpose: list the roles of a tenant by their ids: all, or that with an id
-- caller:  store::identity::role
-- index:   identity_role_pkey
-- locks:   none
SELECT o.id, o.name, o.permissions FROM identity_role o
WHERE o.tenant_id = $1 AND ($2::text IS NULL OR o.id = $2)
ORDER BY o.id
