-- purpose: delete the schedules that the published version no longer has
-- caller:  store::schedule, in the publishing transaction
-- index:   schedule_tenant_id_definition_id_activity_id_key
-- locks:   schedule, locked before
DELETE FROM schedule s WHERE s.tenant_id = $1 AND s.definition_id = $2 AND s.id <> ALL ($3::text[])
