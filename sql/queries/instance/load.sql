-- purpose: load instances whose locks the caller holds, in a statement after the claim, so that its snapshot is newer. A
--          state of more than $3 bytes is not read, only its size
-- caller:  store::claim::rows
-- index:   instance_pkey
-- locks:   none
SELECT i.tenant_id, i.id, i.version, i.definition_id, i.version_id, i.definition_version,
       CASE WHEN octet_length(i.state) <= $3::bigint THEN whole_state(i) END AS state, octet_length(i.state) AS bytes, i.created_at
FROM unnest($1::text[], $2::text[]) t(tenant_id, id)
JOIN instance i ON i.tenant_id = t.tenant_id AND i.id = t.id
