-- purpose: the version that each reference means: of the named definition, else of one whose activity type has the name
--          (files of another server); there the named version, else the published one, else the newest
-- caller:  store::definition::composition, before a publish and again in its transaction
-- index:   definition_version, definition_activity_type
-- locks:   none
SELECT r.no, d.definition_id, d.version_id, d.version, d.was_published OR d.was_started AS is_final,
    d.xmin::text AS row_version
FROM unnest($2::text[], $3::text[], $4::text[], $5::integer[])
    WITH ORDINALITY r(definition_id, type_name, version_id, version, no)
CROSS JOIN LATERAL (
    SELECT o.*, o.xmin FROM definition o
    WHERE o.tenant_id = $1 AND o.deleted_at IS NULL AND o.activity_type IS NOT NULL
      AND CASE WHEN EXISTS (SELECT 1 FROM definition n
                            WHERE n.tenant_id = $1 AND n.definition_id = r.definition_id AND n.deleted_at IS NULL)
               THEN o.definition_id = r.definition_id
               ELSE o.activity_type = r.type_name END
    ORDER BY o.version_id = r.version_id DESC, r.version_id = '' AND o.version = r.version DESC, o.is_published DESC,
             o.is_latest DESC, o.version DESC, o.version_id
    LIMIT 1) d
ORDER BY r.no
