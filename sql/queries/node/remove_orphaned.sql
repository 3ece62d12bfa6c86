-- purpose: list incarnations that hold claims and are neither registered nor being removed (orphaned), and removals
--          that were not completed
-- caller:  store::node::removal
-- index:   work_claimed, timer_claimed, webhook_sink_claimed
-- locks:   none; the release is a statement of its own, so that a node that registers meanwhile keeps its claims
SELECT c.claimed_by AS incarnation
FROM (SELECT w.claimed_by FROM work w WHERE w.claimed_by IS NOT NULL
      UNION SELECT t.claimed_by FROM timer t WHERE t.claimed_by IS NOT NULL
      UNION SELECT s.claimed_by FROM webhook_sink s WHERE s.claimed_by IS NOT NULL) c
WHERE NOT EXISTS (SELECT 1 FROM node n WHERE n.incarnation = c.claimed_by)
  AND NOT EXISTS (SELECT 1 FROM removed_node d WHERE d.incarnation = c.claimed_by)
UNION
-- Further ahead: the removal began before the clock was stepped back.
SELECT d.incarnation FROM removed_node d
WHERE d.removed_at < clock_timestamp() - interval '10 seconds'
   OR d.removed_at > clock_timestamp() + interval '10 seconds'
