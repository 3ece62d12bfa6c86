-- purpose: the newest versions that use a definition as an activity, through all levels, at most so many
-- caller:  store::definition::composition, for the API, before a publish and again in its transaction
-- index:   definition_reference_used, definition_latest
-- locks:   none
WITH RECURSIVE consumer(definition_id) AS (
    SELECT $2::text COLLATE "C"
    UNION
    SELECT d.definition_id
    FROM consumer c
    JOIN definition_reference r ON r.used_definition_id = c.definition_id AND r.tenant_id = $1
    JOIN definition d ON d.tenant_id = $1 AND d.version_id = r.version_id AND d.is_latest
)
SELECT d.definition_id, d.version_id, d.version, d.name, d.is_published, d.is_readonly, d.is_system, d.was_started,
    d.xmin::text AS row_version,
    (SELECT max(m.version) FROM definition m WHERE m.tenant_id = $1 AND m.definition_id = d.definition_id) AS max_version
FROM consumer c
JOIN definition d ON d.tenant_id = $1 AND d.definition_id = c.definition_id AND d.is_latest
WHERE d.definition_id <> $2
ORDER BY d.definition_id
LIMIT $3
