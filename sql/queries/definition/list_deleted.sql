-- purpose: list a page of the deleted versions that are kept, after a given one
-- caller:  store::definition::delete
-- index:   definition_deleted
-- locks:   none
SELECT d.tenant_id, d.version_id
FROM definition d
WHERE d.deleted_at IS NOT NULL AND (d.tenant_id, d.version_id) > ($1, $2)
ORDER BY d.tenant_id, d.version_id
LIMIT $3
