-- purpose: list the users of a tenant by their names: all, or that with an id
-- caller:  store::identity::user
-- index:   identity_user_pkey
-- locks:   none
SELECT u.id, u.name, u.roles, u.disabled_at, u.created_at, u.updated_at FROM identity_user u
WHERE u.tenant_id = $1 AND ($2::text IS NULL OR u.id = $2)
ORDER BY lower(u.name)
