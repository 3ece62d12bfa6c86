-- purpose: of the versions that designers are shown as activity types, those of these definitions, ids or types
-- caller:  store::definition::composition, for definitions that designers read
-- index:   definition_activity_type
-- locks:   none
SELECT t.activity_type, t.version, t.definition_id, t.version_id, t.is_published, t.outcomes
FROM (SELECT d.activity_type, d.version, d.definition_id, d.version_id, d.is_published,
             d.body -> 'outcomes' AS outcomes
      FROM definition d
      WHERE d.tenant_id = $1 AND d.deleted_at IS NULL AND d.activity_type IS NOT NULL
        AND (d.was_published OR d.is_latest)
      ORDER BY d.activity_type, d.version DESC, d.version_id
      LIMIT $2) t
WHERE t.definition_id = ANY ($3::text[]) OR t.version_id = ANY ($4::text[]) OR t.activity_type = ANY ($5::text[])
