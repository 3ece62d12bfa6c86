-- purpose: whether no newest version of another definition has this name
-- caller:  store::definition::read
-- index:   definition_latest
-- locks:   none
SELECT NOT EXISTS (SELECT 1 FROM definition d
                   WHERE d.tenant_id = $1 AND d.is_latest AND d.name = $2 AND d.definition_id IS DISTINCT FROM $3) AS free
