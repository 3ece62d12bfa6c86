-- purpose: the version that was the newest is so no longer
-- caller:  store::definition, in the transaction that holds the definition's lock
-- index:   definition_latest
-- locks:   definition
UPDATE definition SET is_latest = false WHERE tenant_id = $1 AND definition_id = $2 AND is_latest
