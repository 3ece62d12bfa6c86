-- purpose: rows that are claimed by an incarnation which is neither registered nor being removed
-- caller:  store::doctor::work
-- index:   work_claimed, timer_claimed, webhook_sink_claimed
-- locks:   none
SELECT format('%s rows are claimed by incarnation %s, which no node has: %s', count(*), c.claimed_by, min(c.what)) AS what,
       min(c.available_at) AS since, NULL::text AS remedy
FROM (SELECT w.claimed_by, w.available_at, 'work ' || w.id || ' of instance ' || w.instance_id AS what
      FROM work w WHERE w.claimed_by IS NOT NULL
      UNION ALL
      SELECT t.claimed_by, t.available_at, 'timer ' || t.id || ' of instance ' || t.instance_id
      FROM timer t WHERE t.claimed_by IS NOT NULL
      UNION ALL
      SELECT s.claimed_by, s.updated_at, 'webhook sink ' || s.id FROM webhook_sink s WHERE s.claimed_by IS NOT NULL) c
WHERE NOT EXISTS (SELECT 1 FROM node n WHERE n.incarnation = c.claimed_by)
  AND NOT EXISTS (SELECT 1 FROM removed_node d WHERE d.incarnation = c.claimed_by)
GROUP BY c.claimed_by
ORDER BY c.claimed_by
LIMIT 10
