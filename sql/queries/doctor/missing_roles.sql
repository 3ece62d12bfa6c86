-- purpose: roles that no live node has
-- caller:  store::doctor::cluster
-- index:   none (a handful of rows), schedule_due
-- locks:   none
SELECT CASE r.role WHEN 'worker' THEN 'no live node runs workflows' WHEN 'api' THEN 'no live node serves the API'
                   ELSE 'no live node fires schedules' END AS what,
       (SELECT max(n.last_seen) FROM node n) AS since, NULL::text AS remedy
FROM unnest(ARRAY['worker', 'api', 'scheduler']) r(role)
WHERE NOT EXISTS (SELECT 1 FROM node n WHERE r.role = ANY (n.roles) AND NOT n.draining AND n.last_seen >= clock_timestamp() - n.tolerance)
  AND (r.role <> 'scheduler' OR EXISTS (SELECT 1 FROM schedule s WHERE s.next_fire IS NOT NULL AND NOT s.paused))
ORDER BY r.role
