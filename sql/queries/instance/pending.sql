-- purpose: read a start that was accepted and has not yet been committed by its first burst
-- caller:  store::instance
-- index:   work_instance, definition_pkey
-- locks:   none
SELECT w.definition_id, w.version_id, w.definition_version, w.created_at, w.body, w.claimed_by IS NOT NULL AS is_executing,
    (SELECT d.is_system FROM definition d WHERE d.tenant_id = w.tenant_id AND d.version_id = w.version_id) AS is_system
FROM work w
WHERE w.tenant_id = $1 AND w.instance_id = $2 AND w.kind = 0 /* start */ AND work_order(w.id, w.definition_id) = 0
