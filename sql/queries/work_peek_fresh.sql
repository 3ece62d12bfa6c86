-- purpose: as work_peek, for a node that finds more than it can take on: instances that have had something to do for less
--          than $4 microseconds, oldest first, so that they do not wait for all that is older. Without what has been in
--          the hands of two processes that died
-- caller:  store::claim
-- index:   work_ready, timer_due
-- locks:   none
SELECT p.tenant_id, p.instance_id
FROM (
    (SELECT w.tenant_id, w.instance_id, w.available_at
     FROM work w
     WHERE w.claimed_by IS NULL AND w.available_at <= now() AND w.crashes < 2
       AND w.available_at > now() - $4::bigint * interval '1 microsecond'
       AND (w.tenant_id, w.instance_id) NOT IN (SELECT * FROM unnest($2::text[], $3::text[]))
     ORDER BY w.available_at, w.id LIMIT $1)
    UNION ALL
    (SELECT t.tenant_id, t.instance_id, t.available_at
     FROM timer t
     WHERE t.claimed_by IS NULL AND t.available_at <= now() AND t.crashes < 2
       AND t.available_at > now() - $4::bigint * interval '1 microsecond'
       AND (t.tenant_id, t.instance_id) NOT IN (SELECT * FROM unnest($2::text[], $3::text[]))
     ORDER BY t.available_at LIMIT $1)
) p
GROUP BY p.tenant_id, p.instance_id
ORDER BY min(p.available_at)
LIMIT $1
