-- purpose: list the versions of a definition, before one or all are deleted
-- caller:  store::definition::delete, in the transaction that holds the definition's lock
-- index:   definition_version
-- locks:   none
SELECT d.version_id, d.is_latest, d.is_published, d.is_readonly, d.is_system
FROM definition d
WHERE d.tenant_id = $1 AND d.definition_id = $2 AND d.deleted_at IS NULL
