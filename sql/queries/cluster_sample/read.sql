-- purpose: read the last sample of the cluster, with its age and how long it took, in seconds
-- caller:  store::cluster_sample
-- index:   none: the table has one row
-- locks:   none
SELECT s.body::text AS body, greatest(0, extract(epoch FROM clock_timestamp() - s.sampled_at))::float8 AS age,
       extract(epoch FROM s.took)::float8 AS took
FROM cluster_sample s
