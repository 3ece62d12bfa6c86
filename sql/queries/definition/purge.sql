-- purpose: purge those of these deleted versions that no instance, no accepted start, no dead letter and no other
--          version has, with their references; the ids of those that nodes may have compiled are not used again
-- caller:  store::definition::delete, after all transactions have ended that could have accepted a start of them
-- index:   definition_pkey, instance_by_definition, definition_reference_version, definition_reference_pkey, purged_version_pkey; work and dead letters are scanned: rare
-- locks:   definition, definition_reference, purged_version
-- Without EXISTS, whose plan may hash all instances.
WITH purged AS (
DELETE FROM definition d
USING unnest($1::text[], $2::text[]) k(tenant_id, version_id)
WHERE d.tenant_id = k.tenant_id AND d.version_id = k.version_id AND d.deleted_at IS NOT NULL
  AND (SELECT true FROM instance i
       WHERE i.definition_id = d.definition_id AND i.version_id = d.version_id AND i.tenant_id = d.tenant_id LIMIT 1) IS NULL
  AND (SELECT true FROM work w WHERE w.version_id = d.version_id AND w.tenant_id = d.tenant_id LIMIT 1) IS NULL
  AND (SELECT true FROM dead_letter l WHERE l.version_id = d.version_id AND l.tenant_id = d.tenant_id LIMIT 1) IS NULL
  AND (SELECT true FROM definition_reference r
       WHERE r.used_version_id = d.version_id AND r.tenant_id = d.tenant_id LIMIT 1) IS NULL
RETURNING d.tenant_id, d.version_id, d.was_published OR d.was_started AS was_compiled
), references_of AS (
    DELETE FROM definition_reference r USING purged p WHERE r.tenant_id = p.tenant_id AND r.version_id = p.version_id
), kept AS (
    INSERT INTO purged_version (tenant_id, version_id)
    SELECT p.tenant_id, p.version_id FROM purged p WHERE p.was_compiled ORDER BY p.version_id, p.tenant_id
    ON CONFLICT DO NOTHING
)
SELECT p.version_id FROM purged p
