-- purpose: change a role: what is null stays
-- caller:  store::identity::role, within a change
-- index:   identity_role_pkey
-- locks:   the role
UPDATE identity_role o
SET name = coalesce($3, o.name), permissions = coalesce($4::text[], o.permissions), updated_at = now()
WHERE o.tenant_id = $1 AND o.id = $2
