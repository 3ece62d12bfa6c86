-- purpose: sample what counts the whole database, into the one row that all nodes serve. Of the queues unfinished rows are
--          counted by their index, at most 10,000; tables of fewer than $2 bytes are counted, the others are estimated from
--          the statistics of the server, so that a sample costs the same with any number of instances. $1: no unclaimed row
--          is due before it; $3: the tables whose sizes are kept
-- caller:  store::cluster_sample
-- index:   work_ready, work_claimed, timer_due, schedule_due, webhook_delivery_due, webhook_delivery_dead
-- locks:   the row of the sample
-- The order of a limited count is that of the index: without it, a scan of the table could seem cheaper.
WITH relation AS MATERIALIZED (
    SELECT t.name, sum(pg_total_relation_size(t.oid))::float8 AS bytes, sum(pg_relation_size(t.oid)) < $2::bigint AS is_small,
           -- Counted since the server started, or else as of the last vacuum.
           sum(coalesce(nullif(pg_stat_get_live_tuples(t.oid), 0), greatest(t.reltuples, 0)))::float8 AS rows,
           sum(pg_stat_get_dead_tuples(t.oid))::float8 AS dead
    FROM (SELECT CASE WHEN starts_with(c.relname::text, 'burst_record_') THEN 'burst_record' ELSE c.relname::text END AS name,
                 c.oid, c.reltuples
          FROM pg_class c
          WHERE c.relkind = 'r' AND c.relnamespace = (SELECT n.oid FROM pg_namespace n WHERE n.nspname = current_schema())) t
    WHERE t.name = ANY ($3::text[])
    GROUP BY t.name
), large AS MATERIALIZED (
    SELECT r.name, r.rows FROM relation r WHERE NOT r.is_small
), ready AS MATERIALIZED (
    SELECT count(*) AS count, min(f.available_at) AS oldest
    FROM (SELECT w.available_at FROM work w
          WHERE w.claimed_by IS NULL AND w.available_at >= $1::timestamptz AND w.available_at <= now()
          ORDER BY w.available_at, w.id LIMIT 10000) f
), timers_ready AS MATERIALIZED (
    SELECT count(*) AS count, min(f.available_at) AS oldest
    FROM (SELECT t.available_at FROM timer t
          WHERE t.claimed_by IS NULL AND t.available_at >= $1::timestamptz AND t.available_at <= now()
          ORDER BY t.available_at LIMIT 10000) f
), registered AS MATERIALIZED (
    SELECT CASE WHEN n.last_seen < clock_timestamp() - n.tolerance THEN 'expired'
                WHEN n.draining THEN 'draining' ELSE 'live' END AS state,
           extract(epoch FROM clock_timestamp() - n.last_seen) AS age, n.missing_activity_types
    FROM node n
), waiting AS MATERIALIZED (
    -- Nodes wait for 64-bit advisory keys (liveness, elections) for as long as they run.
    SELECT count(*) AS count, max(extract(epoch FROM clock_timestamp() - l.waitstart)) AS longest
    FROM pg_locks l
    -- A wait for a transaction names no database.
    JOIN pg_stat_activity a ON a.pid = l.pid
    WHERE NOT l.granted AND a.datname = current_database() AND NOT (l.locktype = 'advisory' AND l.objsubid = 1)
), counted (name, value) AS (
    SELECT 'nodes/' || s.state, (SELECT count(*) FROM registered r WHERE r.state = s.state)::float8
    FROM unnest(ARRAY['live', 'draining', 'expired']) s(state)
    UNION ALL
    SELECT 'nodes_with_missing_types', count(*) FROM registered r
    WHERE r.state = 'live' AND r.missing_activity_types <> '{}'
    UNION ALL
    SELECT 'oldest_check_in_seconds', coalesce(max(r.age), 0) FROM registered r WHERE r.state <> 'expired'
    UNION ALL
    SELECT 'paused', (p.mode <> 0 /* running */)::integer FROM cluster_pause p
    UNION ALL
    SELECT 'instances', coalesce((SELECT l.rows FROM large l WHERE l.name = 'instance'), (SELECT count(*) FROM instance))
    UNION ALL
    SELECT 'instances_active',
           coalesce((SELECT l.rows * coalesce(f.frequency, 0)
                     FROM large l,
                          (SELECT sum(v.frequency) AS frequency
                           FROM pg_stats s
                           CROSS JOIN LATERAL unnest(s.most_common_vals::text::smallint[], s.most_common_freqs) v(value, frequency)
                           WHERE s.schemaname = current_schema() AND s.tablename = 'instance' AND s.attname = 'status'
                             AND v.value = 0 /* running */) f
                     WHERE l.name = 'instance'),
                    (SELECT count(*) FROM instance i WHERE i.status = 0 /* running */))
    UNION ALL
    SELECT 'bookmarks', coalesce((SELECT l.rows FROM large l WHERE l.name = 'bookmark'), (SELECT count(*) FROM bookmark))
    UNION ALL
    SELECT 'work_ready',
           CASE WHEN r.count < 10000 THEN r.count
                ELSE greatest(r.count, (SELECT l.rows FROM relation l WHERE l.name = 'work')) END
    FROM ready r
    UNION ALL
    SELECT 'work_claimed', count(*)
    FROM (SELECT FROM work w WHERE w.claimed_by IS NOT NULL ORDER BY w.claimed_by LIMIT 10000) f
    UNION ALL
    SELECT 'oldest_work_seconds', coalesce(extract(epoch FROM now() - r.oldest), 0) FROM ready r
    UNION ALL
    SELECT 'timers', coalesce((SELECT l.rows FROM large l WHERE l.name = 'timer'), (SELECT count(*) FROM timer))
    UNION ALL
    SELECT 'timers_due', r.count FROM timers_ready r
    UNION ALL
    SELECT 'oldest_timer_seconds', coalesce(extract(epoch FROM now() - r.oldest), 0) FROM timers_ready r
    UNION ALL
    SELECT 'schedules', coalesce((SELECT l.rows FROM large l WHERE l.name = 'schedule'), (SELECT count(*) FROM schedule))
    UNION ALL
    SELECT 'schedules_due', count(*)
    FROM (SELECT FROM schedule s
          WHERE s.next_fire IS NOT NULL AND NOT s.paused AND s.next_fire <= now() ORDER BY s.next_fire, s.id LIMIT 10000) f
    UNION ALL
    SELECT 'inbox_events', coalesce((SELECT l.rows FROM large l WHERE l.name = 'inbox'), (SELECT count(*) FROM inbox))
    UNION ALL
    SELECT 'dead_letters',
           coalesce((SELECT l.rows FROM large l WHERE l.name = 'dead_letter'), (SELECT count(*) FROM dead_letter))
    UNION ALL
    SELECT 'webhook_deliveries/pending', count(*)
    FROM (SELECT FROM webhook_delivery d WHERE d.state = 0 /* pending */ ORDER BY d.sink, d.due_at LIMIT 10000) f
    UNION ALL
    SELECT 'webhook_deliveries/dead', count(*)
    FROM (SELECT FROM webhook_delivery d WHERE d.state = 2 /* dead letter */ ORDER BY d.sink, d.ended_at LIMIT 10000) f
    UNION ALL
    SELECT 'partitions_ahead',
           coalesce(max(CASE WHEN c.relname ~ '^burst_record_[0-9]{8}$' THEN to_date(right(c.relname::text, 8), 'YYYYMMDD') END)
                    - (now() AT TIME ZONE 'UTC')::date, 0)
    FROM pg_class c WHERE c.relnamespace = (SELECT n.oid FROM pg_namespace n WHERE n.nspname = current_schema())
    UNION ALL
    SELECT 'table_bytes/' || r.name, r.bytes FROM relation r
    UNION ALL
    SELECT 'table_rows/' || r.name, r.rows FROM relation r
    UNION ALL
    SELECT 'table_dead_rows/' || r.name, r.dead FROM relation r
    UNION ALL
    SELECT 'database_bytes', pg_database_size(current_database())
    UNION ALL
    SELECT 'connections', sum(s.numbackends) FROM pg_stat_database s
    UNION ALL
    SELECT 'connections_limit', current_setting('max_connections')::integer
    UNION ALL
    SELECT 'lock_waiters', w.count FROM waiting w
    UNION ALL
    SELECT 'longest_lock_wait_seconds', coalesce(w.longest, 0) FROM waiting w
    UNION ALL
    -- Of sessions that the role of the nodes may see.
    SELECT 'oldest_transaction_seconds', coalesce(max(extract(epoch FROM clock_timestamp() - a.xact_start)), 0)
    FROM pg_stat_activity a
    WHERE a.datname = current_database() AND a.backend_type = 'client backend' AND a.pid <> pg_backend_pid()
    UNION ALL
    SELECT 'xmin_age_transactions',
           coalesce(greatest((SELECT max(age(a.backend_xmin)) FROM pg_stat_activity a),
                             (SELECT max(greatest(age(o.xmin), age(o.catalog_xmin))) FROM pg_replication_slots o),
                             (SELECT max(age(p.transaction)) FROM pg_prepared_xacts p)), 0)
    UNION ALL
    SELECT 'wraparound_age_transactions', age(d.datfrozenxid) FROM pg_database d WHERE d.datname = current_database()
    UNION ALL
    SELECT v.name, v.value
    FROM pg_stat_database s
    CROSS JOIN LATERAL (VALUES ('deadlocks_total', s.deadlocks::float8),
                               ('transactions_total', (s.xact_commit + s.xact_rollback)::float8)) v(name, value)
    WHERE s.datname = current_database()
    UNION ALL
    SELECT 'notify_queue_ratio', pg_notification_queue_usage()
)
INSERT INTO cluster_sample AS c (sampled_at, body, took)
SELECT clock_timestamp(), b.body, clock_timestamp() - statement_timestamp()
FROM (SELECT jsonb_object_agg(v.name, v.value) AS body FROM counted v OFFSET 0) b
ON CONFLICT (only_row) DO UPDATE SET sampled_at = excluded.sampled_at, body = excluded.body, took = excluded.took
