-- purpose: read a start that was accepted and has not yet been committed by its first burst
-- caller:  store::instance
-- index:   work_instance
-- locks:   none
SELECT w.definition_id, w.version_id, w.definition_version, w.created_at, w.body
FROM work w
WHERE w.tenant_id = $1 AND w.instance_id = $2 AND w.kind = 0 /* start */ AND work_order(w.id, w.definition_id) = 0
