-- purpose: read the id of the published version of a definition
-- caller:  store::definition::refresh, also in the transaction that holds the definition's lock
-- index:   definition_published
-- locks:   none
SELECT d.version_id FROM definition d WHERE d.tenant_id = $1 AND d.definition_id = $2 AND d.is_published
