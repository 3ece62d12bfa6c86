-- purpose: purge those of these deleted versions that no instance, no accepted start and no dead letter has
-- caller:  store::definition::delete, after all transactions have ended that could have accepted a start of them
-- index:   definition_pkey, instance_by_definition; work and dead letters are scanned: rare
-- locks:   definition
-- Without EXISTS, whose plan may hash all instances.
DELETE FROM definition d
USING unnest($1::text[], $2::text[]) k(tenant_id, version_id)
WHERE d.tenant_id = k.tenant_id AND d.version_id = k.version_id AND d.deleted_at IS NOT NULL
  AND (SELECT true FROM instance i
       WHERE i.definition_id = d.definition_id AND i.version_id = d.version_id AND i.tenant_id = d.tenant_id LIMIT 1) IS NULL
  AND (SELECT true FROM work w WHERE w.version_id = d.version_id AND w.tenant_id = d.tenant_id LIMIT 1) IS NULL
  AND (SELECT true FROM dead_letter l WHERE l.version_id = d.version_id AND l.tenant_id = d.tenant_id LIMIT 1) IS NULL
RETURNING d.version_id
