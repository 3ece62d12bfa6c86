-- purpose: the versions of other definitions that mean one of these versions, before they are deleted
-- caller:  store::definition::composition, in the transaction that holds the lock of compositions
-- index:   definition_reference_version, definition_pkey
-- locks:   none
SELECT DISTINCT c.definition_id, c.version
FROM definition_reference r
JOIN definition c ON c.tenant_id = r.tenant_id AND c.version_id = r.version_id
WHERE r.tenant_id = $1 AND r.used_version_id = ANY ($2::text[]) AND c.deleted_at IS NULL AND c.definition_id <> $3
ORDER BY c.definition_id, c.version
LIMIT 11
