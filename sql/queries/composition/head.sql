-- purpose: the newest version of a definition, whether its row changed, and what a client may change of it
-- caller:  store::definition::composition, before a publish and again in its transaction
-- index:   definition_latest, definition_version
-- locks:   none
SELECT d.version_id, d.xmin::text AS row_version, d.is_readonly, d.is_system,
       EXISTS (SELECT 1 FROM definition p
               WHERE p.tenant_id = $1 AND p.definition_id = $2 AND p.was_published AND p.deleted_at IS NULL) AS was_published
FROM definition d
WHERE d.tenant_id = $1 AND d.definition_id = $2 AND d.is_latest
