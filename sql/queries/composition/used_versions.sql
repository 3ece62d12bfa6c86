-- purpose: read versions and all that they use as activities, each with its references: {definition, type, version id,
--          version, the version that it means}
-- caller:  store::definition::composition, for the cache of compiled programs and before a publish
-- index:   definition_pkey, definition_reference_pkey
-- locks:   none
WITH RECURSIVE used(version_id) AS (
    SELECT k.version_id COLLATE "C" FROM unnest($2::text[]) k(version_id)
    UNION
    SELECT r.used_version_id
    FROM used u JOIN definition_reference r ON r.version_id = u.version_id AND r.tenant_id = $1
    WHERE r.used_version_id IS NOT NULL
), bounded AS (
    SELECT u.version_id FROM used u LIMIT 1001
)
SELECT d.version_id, d.definition_id, d.version, d.body, d.was_published OR d.was_started AS is_final,
    d.xmin::text AS row_version,
    coalesce((SELECT json_agg(json_build_array(r.definition_id, r.type_name, r.wanted_version_id, r.wanted_version,
                                               r.used_version_id))
              FROM definition_reference r
              WHERE r.tenant_id = $1 AND r.version_id = d.version_id AND r.used_version_id IS NOT NULL), '[]') AS refs
FROM bounded u JOIN definition d ON d.tenant_id = $1 AND d.version_id = u.version_id
