-- purpose: count the definitions
-- caller:  store::definition::read
-- index:   definition_latest
-- locks:   none
SELECT count(*) AS total FROM definition d WHERE d.tenant_id = $1 AND d.is_latest
