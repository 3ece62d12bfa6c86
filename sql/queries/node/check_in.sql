-- purpose: check in, and read in the same round trip what is due, which nodes are registered and which are late
-- caller:  store::node, from the check-in thread
-- index:   node_pkey, timer_due, work_ready, schedule_due, schedule_queued, fan_out_unfinished, bulk_action_unfinished
-- locks:   own node row
-- $2 and $3: unclaimed rows are looked for from this time on (null: any), unfinished fan-outs from this id on; those before
-- are consumed, and stay in the indexes while an old snapshot exists in the database. $4: the time by the node's own clock.
WITH head AS MATERIALIZED (
    SELECT least((SELECT t.available_at FROM timer t WHERE t.claimed_by IS NULL AND t.available_at >= s.since
                  ORDER BY t.available_at LIMIT 1),
                 (SELECT w.available_at FROM work w WHERE w.claimed_by IS NULL AND w.available_at >= s.since
                  ORDER BY w.available_at, w.id LIMIT 1)) AS at
    -- Not after now: the clock may have been stepped back.
    FROM (SELECT CASE WHEN $2::timestamptz IS NULL THEN '-infinity'
                      ELSE least($2, now() - interval '30 seconds') END AS since) s
), checked_in AS (
    UPDATE node SET last_seen = clock_timestamp(), clock_ahead = $4::timestamptz - clock_timestamp()
    WHERE incarnation = $1 RETURNING 1
), late AS (
    SELECT n.incarnation, (extract(epoch FROM n.tolerance) * 1000000)::bigint AS tolerance
    FROM node n
    -- Further ahead: no check-in since the clock was stepped back.
    WHERE (n.last_seen < clock_timestamp() - n.tolerance OR n.last_seen > clock_timestamp() + n.tolerance)
      AND n.incarnation <> $1
), others AS (
    SELECT n.incarnation, n.roles, n.missing_activity_types
    FROM node n
    WHERE n.incarnation <> $1 AND NOT n.draining AND n.last_seen >= clock_timestamp() - n.tolerance
)
SELECT EXISTS (SELECT 1 FROM checked_in)
           AND EXISTS (SELECT 1 FROM fence f WHERE f.incarnation = $1) AS registered,
       (SELECT r.revision FROM revision r) AS revision,
       (SELECT r.webhooks FROM revision r) AS webhooks,
       (SELECT r.identity FROM revision r) AS identity,
       (SELECT p.mode FROM cluster_pause p WHERE p.only_row) AS pause_mode,
       (SELECT p.generation FROM cluster_pause p WHERE p.only_row) AS pause_generation,
       (extract(epoch FROM h.at - clock_timestamp()) * 1000000)::bigint AS next_due,
       ARRAY(SELECT l.incarnation FROM late l ORDER BY l.incarnation) AS expired,
       ARRAY(SELECT l.tolerance FROM late l ORDER BY l.incarnation) AS tolerances,
       (SELECT (extract(epoch FROM min(n.last_seen + n.tolerance) - clock_timestamp()) * 1000000)::bigint
        FROM node n
        WHERE n.incarnation <> $1 AND n.last_seen >= clock_timestamp() - n.tolerance) AS next_expiry,
       ARRAY(SELECT n.incarnation FROM node n ORDER BY n.incarnation) AS members,
       d.jobs_due,
       d.sample_due,
       u.fan_outs,
       u.fan_out_numbers,
       u.first_fan_out,
       EXISTS (SELECT 1 FROM bulk_action b WHERE b.finished_at IS NULL) AS has_bulk_actions,
       EXISTS (SELECT 1 FROM inbox_match) AS has_inbox_matches,
       EXISTS (SELECT 1 FROM others o WHERE 'api' = ANY (o.roles)) AS has_api_peers,
       (SELECT (extract(epoch FROM s.next_fire - clock_timestamp()) * 1000000)::bigint
        FROM schedule s
        WHERE s.next_fire IS NOT NULL AND NOT s.paused
        ORDER BY s.next_fire, s.id LIMIT 1) AS next_fire,
       EXISTS (SELECT 1 FROM schedule s WHERE s.queued IS NOT NULL AND NOT s.paused) AS queued,
       EXISTS (SELECT 1 FROM others o WHERE 'worker' = ANY (o.roles)) AS has_worker_peers,
       -- No unclaimed row is due before it.
       least(h.at, now()) AS head,
       p.worker_peers,
       p.rank,
       -- Drops the notifications that every listener has read: a NOTIFY that meets a full queue does not, so the queue would
       -- stay full after its last reader has gone on.
       pg_notification_queue_usage(),
       -- Of the whole server; its growth is the number of transactions that write.
       pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS transactions,
       clock_timestamp() AS clock
FROM head h,
     -- The sample of the cluster has a loop of its own.
     (SELECT coalesce(bool_or(j.name <> 'sample-cluster'), false) AS jobs_due,
             coalesce(bool_or(j.name = 'sample-cluster'), false) AS sample_due
      FROM cluster_job j
      WHERE j.next_run_at <= clock_timestamp() OR j.next_run_at > clock_timestamp() + 2 * j.period) d,
     -- Those whose turn comes first, as many as cost a check-in nothing.
     (SELECT count(*) AS fan_outs, coalesce(sum(o.cut - o.cursor), 0)::bigint AS fan_out_numbers,
             -- Else the last id that was given away.
             coalesce(min(o.id), (SELECT q.last_value FROM fan_out_id_seq q)) AS first_fan_out
      FROM (SELECT f.id, f.cut, f.cursor FROM fan_out f
            WHERE f.finished_at IS NULL AND f.id + 0 >= $3::bigint ORDER BY f.id + 0 LIMIT 1000) o) u,
     -- A node that cannot run every version polls for itself, and has no shard of a backlog.
     (SELECT count(*) AS worker_peers, count(*) FILTER (WHERE o.incarnation < $1) AS rank
      FROM others o
      WHERE 'worker' = ANY (o.roles) AND o.missing_activity_types = '{}') p
