-- purpose: read one instance with its state and the due times of its timers, in one snapshot
-- caller:  store::instance::transfer
-- index:   instance_pkey, timer_pkey
-- locks:   none
SELECT i.id, i.definition_id, i.version_id, i.definition_version, i.status, i.sub_status, i.correlation_id, i.name,
    i.incident_count, i.created_at, i.updated_at, i.finished_at, i.parent_instance_id, whole_state(i) AS state, i.version AS instance_version,
    ARRAY(SELECT t.id FROM timer t WHERE t.instance_id = i.id AND t.tenant_id = i.tenant_id ORDER BY t.id) AS timer_ids,
    ARRAY(SELECT t.due FROM timer t WHERE t.instance_id = i.id AND t.tenant_id = i.tenant_id ORDER BY t.id) AS timer_dues
FROM instance i
WHERE i.tenant_id = $1 AND i.id = $2
