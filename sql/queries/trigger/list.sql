-- purpose: list the triggers of a definition, to compare them with those of an equal definition
-- caller:  store::definition, in the transaction that holds the definition's lock
-- index:   trigger_pkey
-- locks:   none
SELECT t.activity_id, t.hash FROM trigger t WHERE t.tenant_id = $1 AND t.definition_id = $2
