-- purpose: read how long after a time each of some instances began an activity, in milliseconds
-- caller:  bench::queries, from `mainspring bench failover`
-- index:   burst_record_pkey
-- locks:   none
SELECT j.instance_id, (extract(epoch FROM min(j.happened_at) - $4) * 1000)::float8 AS begun_ms
FROM journal j
WHERE j.tenant_id = $1 AND j.instance_id = ANY($2) AND j.activity_id = $3 AND j.event_name = 'Started'
GROUP BY j.instance_id
