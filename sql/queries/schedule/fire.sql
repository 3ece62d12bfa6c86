-- purpose: fire: update the schedules that are unchanged since the decision, and insert the starts that are due, in
--          the version that is published now and as its activation strategy allows. A schedule that changed, or that
--          another session has locked, is skipped; $3 also fires paused ones
-- caller:  store::schedule
-- index:   schedule_pkey, definition_published, instance_pkey, work_instance, activation_held
-- locks:   schedule by id (locked ones are skipped), then activation by key, then work
WITH firing AS MATERIALIZED (
    SELECT t.*, s.definition_id, s.overlap
    FROM unnest($1::schedule_firing[]) t
    JOIN schedule s ON s.tenant_id = t.tenant_id AND s.id = t.id
    WHERE s.version = t.version AND (NOT s.paused OR $3::boolean)
      -- The last occurrence never goes back.
      AND (s.last_occurrence IS NULL OR t.last_occurrence >= s.last_occurrence)
      -- Not while the activation strategy is being seeded.
      AND NOT EXISTS (SELECT 1 FROM definition d
                      WHERE d.tenant_id = s.tenant_id AND d.definition_id = s.definition_id AND d.is_published
                        AND d.seeding = 2 /* seed */)
      AND (SELECT CASE p.mode WHEN 0 /* running */ THEN true ELSE raise_paused(p.reason) END
           FROM cluster_pause p WHERE p.only_row)
    ORDER BY s.tenant_id, s.id
    FOR NO KEY UPDATE OF s SKIP LOCKED
), wanted AS MATERIALIZED (
    SELECT t.no, t.tenant_id, t.id, t.overlap, x.instance_id, x.activity_id, x.payload, x.delay, d.definition_id,
           d.version_id, d.version, d.activation_strategy,
           CASE WHEN d.activation_strategy > 0 /* always */
               THEN activation_key(d.activation_strategy, d.definition_id, NULL) END AS held,
           CASE WHEN d.activation_strategy > 0 /* always */
               THEN activation_blocked(t.tenant_id, d.activation_strategy, d.definition_id, NULL)
                ELSE false END AS blocked
    FROM firing t
    JOIN unnest($2::schedule_start[]) x ON x.no = t.no
    JOIN definition d ON d.tenant_id = t.tenant_id AND d.definition_id = t.definition_id AND d.is_published
    -- Without a join, whose plan may walk over all instances while the table seems empty.
    WHERE (SELECT true FROM instance i WHERE i.tenant_id = t.tenant_id AND i.id = x.instance_id LIMIT 1) IS NULL
), activated AS (
    INSERT INTO activation (tenant_id, key, instance_id, exclusive, strategy, definition_id)
    SELECT w.tenant_id, w.held, w.instance_id, true, w.activation_strategy, w.definition_id
    FROM wanted w
    WHERE w.held IS NOT NULL AND NOT w.blocked
    ORDER BY w.tenant_id, w.held, w.instance_id
    ON CONFLICT DO NOTHING
    RETURNING tenant_id, instance_id
), started AS (
    INSERT INTO work (tenant_id, instance_id, kind, definition_id, version_id, definition_version, body, available_at)
    SELECT w.tenant_id, w.instance_id, 0 /* start */, w.definition_id, w.version_id, w.version,
           json_build_object('triggerActivityId', w.activity_id, 'payload', w.payload),
           now() + w.delay * interval '1 microsecond'
    FROM wanted w
    WHERE w.held IS NULL
       OR EXISTS (SELECT 1 FROM activated a WHERE a.tenant_id = w.tenant_id AND a.instance_id = w.instance_id)
    ORDER BY w.tenant_id, w.instance_id
    -- An occurrence starts once.
    ON CONFLICT (instance_id, work_order(id, definition_id), (tenant_id || '')) DO NOTHING
    RETURNING tenant_id, instance_id
), busy AS (
    INSERT INTO activation (tenant_id, key, instance_id, exclusive, strategy, definition_id)
    SELECT w.tenant_id, schedule_key(w.id), w.instance_id, true, 0 /* schedule */, w.definition_id
    FROM wanted w
    JOIN started s ON s.tenant_id = w.tenant_id AND s.instance_id = w.instance_id
    WHERE w.overlap > 0 /* allow */
    ORDER BY w.tenant_id, w.id
    ON CONFLICT DO NOTHING
), counted AS (
    SELECT t.no, count(x.no) AS asked, count(s.instance_id) AS made, max(s.instance_id) AS instance_id
    FROM firing t
    LEFT JOIN unnest($2::schedule_start[]) x ON x.no = t.no
    LEFT JOIN started s ON s.tenant_id = t.tenant_id AND s.instance_id = x.instance_id
    GROUP BY t.no
), moved AS (
    UPDATE schedule s
    SET version = s.version + 1, tz_version = t.tz_version, last_occurrence = t.last_occurrence,
        next_occurrence = t.next_occurrence, next_fire = t.next_fire, queued = t.queued,
        fired = s.fired + c.made, misfired = s.misfired + t.misfired, skipped = s.skipped + t.skipped + c.asked - c.made,
        last_fired_at = CASE WHEN c.made > 0 THEN now() ELSE s.last_fired_at END,
        last_lateness = CASE WHEN c.made > 0 THEN t.lateness ELSE s.last_lateness END,
        last_node = CASE WHEN c.made > 0 THEN $4::text ELSE s.last_node END,
        last_instance = coalesce(c.instance_id, s.last_instance)
    FROM firing t
    JOIN counted c ON c.no = t.no
    WHERE s.tenant_id = t.tenant_id AND s.id = t.id
)
SELECT c.no, c.asked, c.made FROM counted c
