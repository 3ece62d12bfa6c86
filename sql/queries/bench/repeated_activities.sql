-- purpose: count the instances in whose journal an activity began or ended more than once
-- caller:  bench::queries, from `mainspring bench failover`, whose workflows have no loops
-- index:   scans the journal of a schema that the benchmark has made for itself
-- locks:   none
SELECT count(DISTINCT (t.tenant_id, t.instance_id)) AS count
FROM (SELECT j.tenant_id, j.instance_id FROM journal j WHERE j.event_name IN ('Started', 'Completed')
      GROUP BY j.tenant_id, j.instance_id, j.activity_id, j.event_name HAVING count(*) > 1) t
