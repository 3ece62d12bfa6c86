-- purpose: list a page of the published definitions, after a given one
-- caller:  store::definition::refresh
-- index:   definition_published
-- locks:   none
SELECT d.definition_id
FROM definition d
WHERE d.tenant_id = $1 AND d.is_published AND d.definition_id > $2
ORDER BY d.definition_id
LIMIT $3
