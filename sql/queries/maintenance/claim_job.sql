-- purpose: take on a job of the cluster that is due: whoever moves its time on does it, everybody else finds it moved.
--          One that is further ahead than two intervals is due, too: the clock was stepped back since
-- caller:  store::maintenance
-- index:   cluster_job_pkey
-- locks:   the job's row; one that somebody has locked is his
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
