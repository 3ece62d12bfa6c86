-- purpose: find the definition of a version that is not deleted
-- caller:  store::definition::delete
-- index:   definition_pkey
-- locks:   none
SELECT d.definition_id FROM definition d WHERE d.tenant_id = $1 AND d.version_id = $2 AND d.deleted_at IS NULL
