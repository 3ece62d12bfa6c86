-- purpose: claim a job of the cluster that is due, by moving its next run forward. A job that is further ahead than
--          two periods is due, too: the clock was stepped back
-- caller:  store::maintenance
-- index:   cluster_job_pkey
-- locks:   the row of the job; a locked one is skipped
WITH due AS MATERIALIZED (
    SELECT j.name FROM cluster_job j
    WHERE j.name = $1
      AND (j.next_run_at <= clock_timestamp()
           OR j.next_run_at > clock_timestamp() + 2 * $2::bigint * interval '1 microsecond')
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE cluster_job j
SET next_run_at = clock_timestamp() + $2::bigint * interval '1 microsecond', period = $2::bigint * interval '1 microsecond',
    last_run_by = $3
FROM due d
WHERE j.name = d.name
RETURNING true
