-- purpose: add a draft version; its id is replaced when another definition has it
-- caller:  store::definition::save, in the transaction that holds the definition's lock
-- index:   definition_pkey
-- locks:   definition
INSERT INTO definition (tenant_id, version_id, definition_id, version, name, description, body, is_latest, is_published,
                        is_readonly, is_system, activity_type)
VALUES ($1, CASE WHEN EXISTS (SELECT 1 FROM definition d WHERE d.tenant_id = $1 AND d.version_id = $2) THEN $3 ELSE $2 END,
        $4, $5, $6, $7, $8, true, false, $9, $10, $11)
RETURNING version_id, created_at
