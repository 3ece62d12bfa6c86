-- purpose: replace the references of a version that has none for ever yet
-- caller:  store::definition::reference, in the transaction that holds the definition's lock
-- index:   definition_reference_pkey
-- locks:   definition_reference
WITH cleared AS (
    DELETE FROM definition_reference r
    WHERE r.tenant_id = $1 AND r.version_id = $2
      AND (r.definition_id, r.type_name, r.wanted_version_id, r.wanted_version) NOT IN (
          SELECT n.definition_id, n.type_name, n.version_id, n.version
          FROM unnest($3::text[], $4::text[], $5::text[], $6::integer[]) n(definition_id, type_name, version_id, version))
)
INSERT INTO definition_reference (tenant_id, version_id, definition_id, type_name, wanted_version_id, wanted_version,
                                  used_definition_id, used_version_id)
SELECT $1, $2, n.definition_id, n.type_name, n.version_id, n.version, n.used_definition_id, n.used_version_id
FROM unnest($3::text[], $4::text[], $5::text[], $6::integer[], $7::text[], $8::text[])
    n(definition_id, type_name, version_id, version, used_definition_id, used_version_id)
ON CONFLICT (version_id, definition_id, type_name, wanted_version_id, wanted_version, tenant_id)
DO UPDATE SET used_definition_id = excluded.used_definition_id, used_version_id = excluded.used_version_id
