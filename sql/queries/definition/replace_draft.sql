-- purpose: set aside a draft that was started, as its instances run on this body; its number goes to the next draft
-- caller:  store::definition::save, in the transaction that holds the definition's lock
-- index:   definition_pkey
-- locks:   definition
UPDATE definition SET is_latest = false, deleted_at = now()
WHERE tenant_id = $1 AND version_id = $2 AND NOT was_published AND was_started
