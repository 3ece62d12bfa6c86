-- purpose: read one version of a definition by its own id
-- caller:  store::definition::read, for the cache of compiled programs
-- index:   definition_pkey
-- locks:   none
SELECT d.definition_id, d.version, d.body FROM definition d WHERE d.tenant_id = $1 AND d.version_id = $2
