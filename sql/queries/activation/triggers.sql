-- purpose: list the stimuli that start a definition
-- caller:  store::activation, in the transaction that holds the definition's lock
-- index:   trigger_pkey
-- locks:   none
SELECT DISTINCT t.hash FROM trigger t WHERE t.tenant_id = $1 AND t.definition_id = $2
