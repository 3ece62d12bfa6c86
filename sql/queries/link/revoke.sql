-- purpose: revoke a resume link of an instance; one that is revoked already stays as it is
-- caller:  store::link
-- index:   resume_link_instance, or resume_link_pkey where an instance has many
-- locks:   resume_link by id
UPDATE resume_link l SET revoked_at = coalesce(l.revoked_at, clock_timestamp())
WHERE l.id = $1 AND l.tenant_id = $2 AND l.instance_id = $3
RETURNING l.id
