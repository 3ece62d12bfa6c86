-- purpose: lock the schedules of a definition, so that none fires while they change
-- caller:  store::schedule, in the publishing transaction, before anything of activation is touched
-- index:   schedule_tenant_id_definition_id_activity_id_key
-- locks:   schedule by id
SELECT s.id, s.activity_type, s.spec, s.last_occurrence
FROM schedule s
WHERE s.tenant_id = $1 AND s.definition_id = $2
ORDER BY s.id
FOR UPDATE
