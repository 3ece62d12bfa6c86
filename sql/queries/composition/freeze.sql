-- purpose: mark a draft as started that is still the row that was read: its body never changes from now on
-- caller:  store::definition::composition, in the transaction that holds the definition's lock
-- index:   definition_pkey
-- locks:   definition
UPDATE definition SET was_started = true, activation_strategy = activation_strategy_of(body)
WHERE tenant_id = $1 AND version_id = $2 AND NOT was_published AND NOT was_started AND deleted_at IS NULL
  AND xmin::text = $3
