-- purpose: list the applications of a tenant by their names: all, or that with an id
-- caller:  store::identity::application
-- index:   identity_application_pkey
-- locks:   none
SELECT a.id, a.name, a.roles, a.client_id, a.expires_at, a.created_at, coalesce(a.expires_at <= now(), false) AS has_expired
FROM identity_application a
WHERE a.tenant_id = $1 AND ($2::text IS NULL OR a.id = $2)
ORDER BY lower(a.name)
