-- purpose: read one instance, with its state if $3
-- caller:  store::instance
-- index:   instance_pkey
-- locks:   none
SELECT i.id, i.definition_id, i.version_id, i.definition_version, i.status, i.sub_status, i.correlation_id, i.name,
    i.incident_count, i.created_at, i.updated_at, i.finished_at, i.parent_instance_id,
    CASE WHEN $3::boolean THEN whole_state(i) END AS state, i.version AS instance_version
FROM instance i
WHERE i.tenant_id = $1 AND i.id = $2
