-- purpose: read, for instances that were due: how long after the first one each was due, how long after that it began
--          an activity, and how long after that it finished normally, in microseconds
-- caller:  bench::queries, from `mainspring bench timers`
-- index:   burst_record_pkey, instance_pkey
-- locks:   none
SELECT (extract(epoch FROM d.due - min(d.due) OVER ()) * 1000000)::float8 AS due_us,
       (extract(epoch FROM b.at - d.due) * 1000000)::float8 AS lateness_us,
       (extract(epoch FROM i.finished_at - d.due) * 1000000)::float8 AS ended_us
FROM unnest($2::text[], $3::timestamptz[]) d(instance_id, due)
LEFT JOIN instance i ON i.tenant_id = $1 AND i.id = d.instance_id AND i.status = 1 /* finished */
    AND i.sub_status = 3 /* finished */
LEFT JOIN LATERAL (
    SELECT min(j.happened_at) AS at FROM journal j
    WHERE j.tenant_id = $1 AND j.instance_id = d.instance_id AND j.activity_id = $4 AND j.event_name = 'Started'
) b ON true
