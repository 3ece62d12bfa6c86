-- purpose: read a page of an instance's journal in order
-- caller:  store::journal
-- index:   journal_pkey
-- locks:   none
SELECT (SELECT count(*) FROM journal c WHERE c.tenant_id = $1 AND c.instance_id = $2) AS total,
       j.sequence, j.happened_at, j.event_name, j.activity_execution_id, j.parent_activity_execution_id, j.activity_id,
       j.activity_type, j.activity_type_version, j.activity_name, j.node_id, j.message, j.source, j.activity_state,
       j.payload
FROM journal j
WHERE j.tenant_id = $1 AND j.instance_id = $2
ORDER BY j.sequence LIMIT $3 OFFSET $4
