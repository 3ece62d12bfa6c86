-- purpose: list the schedules of a definition, to compare them with those of an equal definition
-- caller:  store::schedule, in the transaction that holds the definition's lock
-- index:   schedule_tenant_id_definition_id_activity_id_key
-- locks:   none
SELECT s.id, s.activity_type, s.spec, s.last_occurrence
FROM schedule s
WHERE s.tenant_id = $1 AND s.definition_id = $2
