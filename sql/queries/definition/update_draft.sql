-- purpose: update a draft that was never published or started
-- caller:  store::definition::save, in the transaction that holds the definition's lock
-- index:   definition_pkey
-- locks:   definition
UPDATE definition
SET name = $3, description = $4, body = $5, is_readonly = $6, is_system = $7, activity_type = $8
WHERE tenant_id = $1 AND version_id = $2 AND NOT was_published AND NOT was_started
RETURNING created_at
