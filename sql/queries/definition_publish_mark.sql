-- purpose: mark the version as published, in a statement after the old one was unmarked: one statement would meet the unique index
-- caller:  store::definition, in the transaction that holds the definition's lock
-- index:   definition_pkey
-- locks:   definition
UPDATE definition SET is_published = true, was_published = true
WHERE tenant_id = $1 AND version_id = $2
