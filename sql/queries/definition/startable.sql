-- purpose: find the version that a start names, and whether it is a draft that may still change
-- caller:  store::definition::draft
-- index:   definition_version, definition_latest, definition_published
-- locks:   none
SELECT d.version_id, d.is_published, NOT d.was_published AND NOT d.was_started AS may_change
FROM definition d
WHERE d.tenant_id = $1 AND d.definition_id = $2 AND d.deleted_at IS NULL
  AND ($3::integer IS NULL OR d.version = $3)
  AND (NOT $4::boolean OR d.is_published)
  AND (NOT $5::boolean OR d.is_latest)
  AND (NOT $6::boolean OR NOT d.is_published)
ORDER BY d.is_published DESC, d.version DESC
LIMIT 1
