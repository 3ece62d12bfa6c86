-- purpose: read one instance, with its state if $3; if $4 also whether a node holds a claim on work of it, and whether its
--          version belongs to the system
-- caller:  store::instance
-- index:   instance_pkey, work_instance, timer_claimed, definition_pkey
-- locks:   none
-- An instance may have 100,000 rows of work and timers. Claims take the first rows of work, so 1,000 of them show it. Of timers
-- the claimed ones of the cluster are read, which are few; `|| ''` keeps the lookup from the primary key.
SELECT i.id, i.definition_id, i.version_id, i.definition_version, i.status, i.sub_status, i.correlation_id, i.name,
    i.incident_count, i.created_at, i.updated_at, i.finished_at, i.parent_instance_id,
    CASE WHEN $3::boolean THEN whole_state(i) END AS state, i.version AS instance_version,
    CASE WHEN $4::boolean THEN
        EXISTS (SELECT FROM (SELECT w.claimed_by FROM work w
                             WHERE w.tenant_id = i.tenant_id AND w.instance_id = i.id
                             ORDER BY work_order(w.id, w.definition_id) LIMIT 1000) f
                WHERE f.claimed_by IS NOT NULL)
        OR EXISTS (SELECT FROM timer t
                   WHERE t.claimed_by IS NOT NULL AND t.instance_id || '' = i.id AND t.tenant_id = i.tenant_id)
    END AS is_executing,
    CASE WHEN $4 THEN (SELECT d.is_system FROM definition d
                       WHERE d.tenant_id = i.tenant_id AND d.version_id = i.version_id) END AS is_system
FROM instance i
WHERE i.tenant_id = $1 AND i.id = $2
