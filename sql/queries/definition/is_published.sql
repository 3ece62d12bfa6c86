-- purpose: whether a version of a definition is published
-- caller:  store::definition::read
-- index:   definition_published
-- locks:   none
SELECT coalesce((SELECT true FROM definition d
                 WHERE d.tenant_id = $1 AND d.definition_id = $2 AND d.is_published LIMIT 1), false) AS is_published
