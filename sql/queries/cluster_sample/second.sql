-- purpose: keep what is cheap to know of this second, if $1 is the incarnation that samples the cluster; else no row returns.
--          $2: no unclaimed row is due before it
-- caller:  store::cluster_sample
-- index:   cluster_job_pkey, cluster_second_pkey, work_ready, work_claimed, timer_due
-- locks:   the row of the second
INSERT INTO cluster_second AS c
    (slot, at, nodes, work_ready, work_claimed, oldest_work, timers_due, instances_inserted, bursts_inserted, transactions)
SELECT extract(epoch FROM j.at)::bigint % 3600, j.at,
       (SELECT count(*) FROM node n WHERE n.last_seen >= clock_timestamp() - n.tolerance),
       w.count,
       (SELECT count(*) FROM (SELECT FROM work k WHERE k.claimed_by IS NOT NULL ORDER BY k.claimed_by LIMIT 1000) f),
       coalesce(j.at - w.oldest, interval '0'),
       (SELECT count(*)
        FROM (SELECT FROM timer t
              WHERE t.claimed_by IS NULL AND t.available_at >= $2::timestamptz AND t.available_at <= now()
              ORDER BY t.available_at LIMIT 1000) f),
       pg_stat_get_tuples_inserted('instance'::regclass),
       (SELECT coalesce(sum(pg_stat_get_tuples_inserted(h.inhrelid)), 0) FROM pg_inherits h
        WHERE h.inhparent = 'burst_record'::regclass),
       pg_snapshot_xmax(pg_current_snapshot())::text::bigint
FROM (SELECT date_trunc('second', clock_timestamp()) AS at FROM cluster_job o
      WHERE o.name = 'sample-cluster' AND o.last_run_by = $1) j,
     (SELECT count(*) AS count, min(f.available_at) AS oldest
      FROM (SELECT r.available_at FROM work r
            WHERE r.claimed_by IS NULL AND r.available_at >= $2::timestamptz AND r.available_at <= now()
            ORDER BY r.available_at, r.id LIMIT 1000) f) w
ON CONFLICT (slot) DO UPDATE
SET at = excluded.at, nodes = excluded.nodes, work_ready = excluded.work_ready, work_claimed = excluded.work_claimed,
    oldest_work = excluded.oldest_work, timers_due = excluded.timers_due, instances_inserted = excluded.instances_inserted,
    bursts_inserted = excluded.bursts_inserted, transactions = excluded.transactions
RETURNING true AS kept
