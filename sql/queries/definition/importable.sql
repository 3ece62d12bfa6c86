-- purpose: find the version that an imported instance runs on: by its own id, or else by its number; whether it never
--          changes, and the activation strategy of the published version
-- caller:  store::definition::import
-- index:   definition_version, definition_published
-- locks:   none
SELECT d.version_id, d.version, d.was_published OR d.was_started AS is_final,
    coalesce((SELECT p.activation_strategy FROM definition p
              WHERE p.tenant_id = d.tenant_id AND p.definition_id = d.definition_id AND p.is_published),
             0::smallint /* always */) AS strategy, now() AS at
FROM definition d
WHERE d.tenant_id = $1 AND d.definition_id = $2 AND d.deleted_at IS NULL AND (d.version_id = $3 OR d.version = $4)
ORDER BY d.version_id <> $3
LIMIT 1
