-- purpose: list instances that have something to do now, oldest first, without locking or claiming anything; with how
--          many of the oldest rows each has: $1 in all mean that there may be more instances. What has been in the
--          hands of two processes that died is shown only if $4
-- caller:  store::claim
-- index:   work_ready, timer_due
-- locks:   none
-- NOT IN is hashed; NOT EXISTS would compare every row of a busy instance that is left out with the whole list.
SELECT p.tenant_id, p.instance_id, count(*), bool_or(p.suspect)
FROM (
    (SELECT w.tenant_id, w.instance_id, w.available_at, w.crashes >= 2 AS suspect
     FROM work w
     WHERE w.claimed_by IS NULL AND w.available_at <= now() AND ($4::boolean OR w.crashes < 2)
       AND (w.tenant_id, w.instance_id) NOT IN (SELECT * FROM unnest($2::text[], $3::text[]))
     ORDER BY w.available_at, w.id LIMIT $1)
    UNION ALL
    (SELECT t.tenant_id, t.instance_id, t.available_at, t.crashes >= 2
     FROM timer t
     WHERE t.claimed_by IS NULL AND t.available_at <= now() AND ($4::boolean OR t.crashes < 2)
       AND (t.tenant_id, t.instance_id) NOT IN (SELECT * FROM unnest($2::text[], $3::text[]))
     ORDER BY t.available_at LIMIT $1)
) p
GROUP BY p.tenant_id, p.instance_id
ORDER BY min(p.available_at)
LIMIT $1
