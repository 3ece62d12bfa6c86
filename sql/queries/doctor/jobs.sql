-- purpose: jobs of the cluster that no node has run in time
-- caller:  store::doctor::cluster
-- index:   none (a handful of rows)
-- locks:   none
-- $1: microseconds.
SELECT format('the job %s is due, and has not run', j.name) AS what, j.next_run_at AS since, NULL::text AS remedy
FROM cluster_job j
WHERE j.next_run_at < clock_timestamp() - $1::bigint * interval '1 microsecond'
  AND EXISTS (SELECT 1 FROM node n WHERE n.last_seen >= clock_timestamp() - n.tolerance)
ORDER BY j.next_run_at
LIMIT 10
