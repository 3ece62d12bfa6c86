-- purpose: read one version of a definition: by its own id, by number, the published one or the newest. A deleted one
--          is found only by its own id
-- caller:  store::definition::read
-- index:   definition_pkey, definition_version, definition_latest, definition_published
-- locks:   none
SELECT d.version_id, d.definition_id, d.version, d.name, d.description, d.is_latest, d.is_published, d.is_readonly,
    d.is_system, d.created_at, d.body
FROM definition d
WHERE d.tenant_id = $1
  AND ($2::text IS NULL OR d.definition_id = $2)
  AND ($3::text IS NULL OR d.version_id = $3)
  AND ($4::integer IS NULL OR d.version = $4)
  AND (NOT $5::boolean OR d.is_published)
  AND (NOT $6::boolean OR d.is_latest)
  AND (NOT $7::boolean OR NOT d.is_published)
  AND (d.deleted_at IS NULL OR $3 IS NOT NULL)
ORDER BY d.is_published DESC, d.version DESC
LIMIT 1
