-- purpose: make the version with the greatest number the newest one, after the newest was deleted
-- caller:  store::definition::delete, in the transaction that holds the definition's lock
-- index:   definition_version
-- locks:   definition
UPDATE definition SET is_latest = true
WHERE tenant_id = $1 AND definition_id = $2 AND deleted_at IS NULL
  AND version = (SELECT max(m.version) FROM definition m
                 WHERE m.tenant_id = $1 AND m.definition_id = $2 AND m.deleted_at IS NULL)
