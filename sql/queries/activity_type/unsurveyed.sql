-- purpose: list versions that were published and whose activity types are not known yet, after a given one
-- caller:  store::activity_type
-- index:   definition_without_activity_types
-- locks:   none
SELECT d.tenant_id, d.version_id
FROM definition d
WHERE (d.was_published OR d.was_started) AND d.activity_types IS NULL AND (d.tenant_id, d.version_id) > ($1, $2)
ORDER BY d.tenant_id, d.version_id
LIMIT 64
