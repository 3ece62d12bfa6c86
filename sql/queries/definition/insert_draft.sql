-- purpose: add a draft version. Another definition may have its id, or a version that was purged may have had it: then the version
--          has the spare one. No row: another transaction has just taken the id
-- caller:  store::definition::save, in the transaction that holds the definition's lock
-- index:   definition_pkey, purged_version_pkey
-- locks:   definition
INSERT INTO definition (tenant_id, version_id, definition_id, version, name, description, body, is_latest, is_published,
                        is_readonly, is_system, activity_type)
VALUES ($1, CASE WHEN EXISTS (SELECT 1 FROM definition d WHERE d.tenant_id = $1 AND d.version_id = $2)
                   OR EXISTS (SELECT 1 FROM purged_version p WHERE p.version_id = $2 AND p.tenant_id = $1)
                 THEN $3 ELSE $2 END,
        $4, $5, $6, $7, $8, true, false, $9, $10, $11)
ON CONFLICT (tenant_id, version_id) DO NOTHING
RETURNING version_id, created_at
