-- purpose: list instances that have something to do now, oldest first, without locking or claiming anything
-- caller:  store::claim
-- index:   work_ready, timer_due
-- locks:   none
SELECT p.tenant_id, p.instance_id
FROM (
    (SELECT w.tenant_id, w.instance_id, w.available_at
     FROM work w
     WHERE w.claimed_by IS NULL AND w.available_at <= now()
       AND NOT EXISTS (SELECT 1 FROM unnest($2::text[], $3::text[]) x(tenant_id, instance_id)
                       WHERE x.tenant_id = w.tenant_id AND x.instance_id = w.instance_id)
     ORDER BY w.available_at, w.id LIMIT $1)
    UNION ALL
    (SELECT t.tenant_id, t.instance_id, t.available_at
     FROM timer t
     WHERE t.claimed_by IS NULL AND t.available_at <= now()
       AND NOT EXISTS (SELECT 1 FROM unnest($2::text[], $3::text[]) x(tenant_id, instance_id)
                       WHERE x.tenant_id = t.tenant_id AND x.instance_id = t.instance_id)
     ORDER BY t.available_at LIMIT $1)
) p
GROUP BY p.tenant_id, p.instance_id
ORDER BY min(p.available_at)
LIMIT $1
