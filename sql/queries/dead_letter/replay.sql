-- purpose: replay a dead letter as a new row of work with its counters at zero. A timer becomes a resume of its
--          bookmark, as only work may be added to an instance without its fence. A start is checked against the
--          activation strategy that is published now and against the overlap policy of its schedule; if refused, it
--          stays a dead letter
-- caller:  store::dead_letter
-- index:   dead_letter_pkey, schedule_pkey, definition_published, instance_pkey, work_instance, activation_held
-- locks:   the dead letter, then its schedule, then activation, then work, then the schedule's own activation row
-- Without NOT EXISTS, whose plan may walk over all instances while the table seems empty.
WITH target AS MATERIALIZED (
    -- A stimulus is published again by other statements.
    SELECT d.* FROM dead_letter d WHERE d.tenant_id = $1 AND d.id = $2 AND d.kind <> 6 /* inbox */
      AND (SELECT CASE p.mode WHEN 0 /* running */ THEN true ELSE raise_paused(p.reason) END
           FROM cluster_pause p WHERE p.only_row)
    FOR UPDATE
), alone AS MATERIALIZED (
    -- Its schedule, if that allows no overlap. The lock keeps it from firing, and the new version voids earlier decisions.
    SELECT s.tenant_id, s.id, s.definition_id, l.instance_id,
           coalesce((SELECT true FROM activation a
                     WHERE a.tenant_id = s.tenant_id AND a.key = schedule_key(s.id) AND a.exclusive LIMIT 1), false) AS runs
    FROM target l
    JOIN schedule s ON s.tenant_id = l.tenant_id AND s.id = l.body->'payload'->>'scheduleId'
         AND s.definition_id = l.definition_id AND s.activity_id = l.body->>'triggerActivityId'
    WHERE l.kind = 0 /* start */ AND s.overlap > 0 /* allow */
      AND (SELECT true FROM instance i WHERE i.tenant_id = l.tenant_id AND i.id = l.instance_id LIMIT 1) IS NULL
      AND (SELECT true FROM work w
           WHERE w.tenant_id = l.tenant_id AND w.instance_id = l.instance_id AND w.kind = 0 /* start */
             AND work_order(w.id, w.definition_id) = 0 LIMIT 1) IS NULL
    FOR NO KEY UPDATE OF s
), wanted AS MATERIALIZED (
    SELECT l.tenant_id, l.instance_id, l.definition_id, d.activation_strategy, l.body->>'correlationId' AS correlation_id,
           activation_key(d.activation_strategy, l.definition_id, l.body->>'correlationId') AS held,
           CASE WHEN d.seeding = 2 /* seed */ THEN raise_activation_unseeded()
                ELSE activation_blocked(l.tenant_id, d.activation_strategy, l.definition_id, l.body->>'correlationId')
           END AS blocked
    FROM target l
    JOIN definition d ON d.tenant_id = l.tenant_id AND d.definition_id = l.definition_id AND d.is_published
         AND d.activation_strategy > 0 /* always */
    WHERE l.kind = 0 /* start */
      AND (SELECT true FROM instance i WHERE i.tenant_id = l.tenant_id AND i.id = l.instance_id LIMIT 1) IS NULL
      AND (SELECT true FROM work w
           WHERE w.tenant_id = l.tenant_id AND w.instance_id = l.instance_id AND w.kind = 0 /* start */
             AND work_order(w.id, w.definition_id) = 0 LIMIT 1) IS NULL
      AND NOT EXISTS (SELECT 1 FROM alone a WHERE a.runs)
), activated AS (
    INSERT INTO activation (tenant_id, key, instance_id, exclusive, strategy, definition_id, correlation_id)
    SELECT w.tenant_id, w.held, w.instance_id, true, w.activation_strategy, w.definition_id, nullif(w.correlation_id, '')
    FROM wanted w
    WHERE w.held IS NOT NULL AND NOT w.blocked
    ON CONFLICT DO NOTHING
    RETURNING instance_id
), refused AS (
    SELECT 1 FROM wanted w WHERE w.held IS NOT NULL AND NOT EXISTS (SELECT 1 FROM activated)
    UNION ALL
    SELECT 1 FROM alone a WHERE a.runs
), back AS (
    INSERT INTO work (tenant_id, id, instance_id, kind, definition_id, version_id, definition_version, body, replays)
        OVERRIDING SYSTEM VALUE
    -- Only a start has a definition_id, by which it is unique. The id of a cancel is negative.
    SELECT l.tenant_id, nextval('work_id_seq') * CASE l.kind WHEN 3 /* cancel */ THEN -1 ELSE 1 END, l.instance_id,
           CASE l.kind WHEN 5 /* timer */ THEN 1 /* resume */ ELSE l.kind END,
           CASE l.kind WHEN 0 /* start */ THEN l.definition_id END, l.version_id, l.definition_version,
           CASE l.kind WHEN 5 /* timer */ THEN json_build_object('bookmarkId', l.timer_id) ELSE l.body END,
           -- A timer by its bookmark and the generation of the instance.
           coalesce(l.replays, l.work_id::text,
                    l.timer_id || '@' || (SELECT (extract(epoch FROM g.created_at) * 1000000)::bigint FROM instance g
                                          WHERE g.tenant_id = l.tenant_id AND g.id = l.instance_id LIMIT 1))
    FROM target l
    WHERE NOT EXISTS (SELECT 1 FROM refused)
      AND (l.kind = 0 /* start */ OR EXISTS (SELECT 1 FROM instance i
                                 WHERE i.tenant_id = l.tenant_id AND i.id = l.instance_id AND i.status = 0 /* running */))
    -- Another start took the id meanwhile.
    ON CONFLICT DO NOTHING
    RETURNING id
), busy AS (
    INSERT INTO activation (tenant_id, key, instance_id, exclusive, strategy, definition_id)
    SELECT a.tenant_id, schedule_key(a.id), a.instance_id, true, 0 /* schedule */, a.definition_id
    FROM alone a
    WHERE EXISTS (SELECT 1 FROM back)
    ON CONFLICT DO NOTHING
    RETURNING 1
), moved AS (
    UPDATE schedule s SET version = s.version + 1
    FROM alone a
    WHERE s.tenant_id = a.tenant_id AND s.id = a.id AND EXISTS (SELECT 1 FROM back)
), deleted AS (
    DELETE FROM dead_letter d USING target l
    WHERE d.tenant_id = l.tenant_id AND d.id = l.id AND NOT EXISTS (SELECT 1 FROM refused)
    RETURNING d.tenant_id, d.work_id
), noted AS (
    -- A caller that waits for the row must not take it for one that took effect.
    INSERT INTO unmatched_work (tenant_id, work_id, dead_lettered)
    SELECT g.tenant_id, g.work_id, true FROM deleted g WHERE g.work_id IS NOT NULL
    ON CONFLICT DO NOTHING
)
SELECT l.instance_id, (SELECT b.id FROM back b) AS work_id, EXISTS (SELECT 1 FROM refused) AS is_refused,
       EXISTS (SELECT 1 FROM alone a WHERE a.runs) AS schedule_is_running,
       -- The schedule fired between the snapshot and the lock: the statement is rolled back, and tried again.
       CASE WHEN EXISTS (SELECT 1 FROM alone) AND EXISTS (SELECT 1 FROM back) AND NOT EXISTS (SELECT 1 FROM busy)
            THEN raise_activation_lost() END
FROM target l
