-- purpose: the newest version of a definition, and whether its row changed
-- caller:  store::definition::composition, before a publish and again in its transaction
-- index:   definition_latest
-- locks:   none
SELECT d.version_id, d.xmin::text AS row_version
FROM definition d
WHERE d.tenant_id = $1 AND d.definition_id = $2 AND d.is_latest
