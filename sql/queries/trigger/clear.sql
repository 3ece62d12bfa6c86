-- purpose: delete the triggers of a definition
-- caller:  store::definition, in the publishing transaction
-- index:   trigger_pkey
-- locks:   trigger
DELETE FROM trigger WHERE tenant_id = $1 AND definition_id = $2
