-- purpose: list the registered nodes and those that are being removed, each with the number of instances that it runs
-- caller:  store::node
-- index:   node_pkey, removed_node_pkey, work_claimed, timer_claimed
-- locks:   none
SELECT n.incarnation, n.node_id, n.started_at, n.last_seen,
       CASE WHEN n.removed_at IS NOT NULL THEN 'departed'
            WHEN n.last_seen < clock_timestamp() - n.tolerance
                 OR n.last_seen > clock_timestamp() + n.tolerance THEN 'silent'
            WHEN n.draining THEN 'draining'
            ELSE 'live' END AS state,
       (SELECT count(*)
        FROM (SELECT w.tenant_id, w.instance_id FROM work w WHERE w.claimed_by = n.incarnation
              UNION SELECT t.tenant_id, t.instance_id FROM timer t WHERE t.claimed_by = n.incarnation) h) AS running,
       (extract(epoch FROM clock_timestamp() - n.started_at) * 1000)::bigint AS age_ms, n.missing_activity_types, n.roles,
       -- A killed leader does not reset its term: the term has ended if there is a greater one.
       CASE WHEN n.scheduler_term = max(n.scheduler_term) OVER () THEN n.scheduler_term END AS scheduler_term
FROM (SELECT incarnation, node_id, started_at, last_seen, tolerance, draining, NULL::timestamptz AS removed_at, missing_activity_types,
             roles, scheduler_term
      FROM node
      UNION ALL
      SELECT d.incarnation, d.node_id, NULL, NULL, NULL, false, d.removed_at, '{}', '{}', NULL FROM removed_node d
      WHERE NOT EXISTS (SELECT 1 FROM node o WHERE o.incarnation = d.incarnation)) n
ORDER BY n.incarnation
