-- purpose: count work and timers by kind and state, with the oldest of each and when the next one is tried. Of timers
--          that are not due only the index is read. `nowhere`: ready, and uses an activity type that no live node
--          with workers knows
-- caller:  store::work
-- index:   work_ready, work_claimed, timer_due, timer_claimed, inbox_expiry, instance_pkey
-- locks:   none
WITH runner AS MATERIALIZED (
    SELECT n.missing_activity_types FROM node n WHERE 'worker' = ANY (n.roles)
        AND n.last_seen >= clock_timestamp() - n.tolerance
), unsupported AS MATERIALIZED (
    SELECT d.tenant_id, d.version_id
    FROM definition d
    WHERE EXISTS (SELECT 1 FROM runner r WHERE r.missing_activity_types <> '{}') AND (d.was_published OR d.was_started)
      AND NOT EXISTS (SELECT 1 FROM runner r WHERE NOT r.missing_activity_types && d.activity_types)
), rows AS (
    SELECT w.kind, CASE WHEN w.claimed_by IS NOT NULL THEN 'claimed'
                        WHEN w.available_at > now() THEN 'retrying'
                        WHEN EXISTS (SELECT 1 FROM unsupported)
                             AND (w.tenant_id, coalesce(w.version_id,
                                                        (SELECT i.version_id FROM instance i
                                                         WHERE i.tenant_id = w.tenant_id AND i.id = w.instance_id), ''))
                                 IN (SELECT * FROM unsupported) THEN 'nowhere'
                        WHEN w.crashes >= 2 THEN 'suspect'
                        ELSE 'ready' END AS state,
           w.created_at AS since, w.available_at
    FROM work w
    UNION ALL
    SELECT 5, CASE WHEN EXISTS (SELECT 1 FROM unsupported)
                        AND (t.tenant_id, coalesce((SELECT i.version_id FROM instance i
                                                    WHERE i.tenant_id = t.tenant_id AND i.id = t.instance_id), ''))
                            IN (SELECT * FROM unsupported) THEN 'nowhere'
                   WHEN t.crashes >= 2 THEN 'suspect' ELSE 'ready' END, t.due, t.available_at
    FROM timer t WHERE t.claimed_by IS NULL AND t.available_at <= now()
    UNION ALL
    SELECT 5, 'claimed', t.due, t.available_at FROM timer t WHERE t.claimed_by IS NOT NULL
)
SELECT r.kind::smallint, r.state, count(*) AS count,
       greatest(0, extract(epoch FROM now() - min(r.since)) * 1000)::bigint AS oldest_ms,
       CASE WHEN r.state = 'retrying' THEN min(r.available_at) END AS next_at, NULL::bigint AS bytes
FROM rows r
GROUP BY r.kind, r.state
UNION ALL
SELECT 5::smallint, 'scheduled', s.count, NULL, s.next_at, NULL
FROM (SELECT count(*), min(t.available_at) AS next_at FROM timer t
      WHERE t.claimed_by IS NULL AND t.available_at > now()) s
WHERE s.count > 0
UNION ALL
SELECT 6::smallint, 'kept', k.count, greatest(0, extract(epoch FROM now() - k.since) * 1000)::bigint, NULL,
       k.bytes
FROM (SELECT count(*), min(x.created_at) AS since,
             -- As in inbox/weigh.sql.
             sum(256 + coalesce(pg_column_size(x.payload), 0) + coalesce(octet_length(x.correlation_id), 0))::bigint AS bytes
      FROM inbox x) k
WHERE k.count > 0
ORDER BY 1, 2
