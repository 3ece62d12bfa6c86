-- purpose: load instances whose locks the caller holds, in a statement after the claim, so that its snapshot is newer
-- caller:  store::claim
-- index:   instance_pkey
-- locks:   none
SELECT i.tenant_id, i.id, i.version, i.definition_id, i.version_id, i.definition_version, i.state, i.created_at
FROM unnest($1::text[], $2::text[]) t(tenant_id, id)
JOIN instance i ON i.tenant_id = t.tenant_id AND i.id = t.id
