-- purpose: the definitions that are activity types, each version of them, with what a designer shows of it
-- caller:  store::definition::composition, for descriptors
-- index:   definition_activity_type
-- locks:   none
SELECT d.version_id, d.definition_id, d.version, d.name, d.description, d.is_published,
    json_build_object('inputs', d.body -> 'inputs', 'outputs', d.body -> 'outputs', 'outcomes', d.body -> 'outcomes',
                      'options', d.body -> 'options') AS body
FROM definition d
WHERE d.tenant_id = $1 AND d.deleted_at IS NULL AND d.activity_type IS NOT NULL
  AND (d.was_published OR d.is_latest)
ORDER BY d.activity_type, d.version DESC, d.version_id
LIMIT $2
