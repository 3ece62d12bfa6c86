-- purpose: make work of a dead letter again, as if nothing had happened; a delay comes back as a resume of its bookmark,
--          as only work may be added to an instance without its fence. A start asks the activation strategy that is
--          published now; one that is refused stays a letter
-- caller:  store::dead_letter
-- index:   dead_letter_pkey, definition_published, work_start, activation_held
-- locks:   the letter, then activation by key, then work
WITH letter AS MATERIALIZED (
    -- A stimulus is published anew by its own statements.
    SELECT d.* FROM dead_letter d WHERE d.tenant_id = $1 AND d.id = $2 AND d.kind <> 6 FOR UPDATE
), wanted AS MATERIALIZED (
    SELECT l.tenant_id, l.instance_id, l.definition_id, d.activation, l.body->>'correlationId' AS correlation_id,
           activation_key(d.activation, l.definition_id, l.body->>'correlationId') AS held,
           CASE WHEN d.seeding = 2 THEN activation_unseeded()
                ELSE activation_blocked(l.tenant_id, d.activation, l.definition_id, l.body->>'correlationId')
           END AS blocked
    FROM letter l
    JOIN definition d ON d.tenant_id = l.tenant_id AND d.definition_id = l.definition_id AND d.is_published
         AND d.activation > 0
    WHERE l.kind = 0
      AND NOT EXISTS (SELECT 1 FROM instance i WHERE i.tenant_id = l.tenant_id AND i.id = l.instance_id)
      AND NOT EXISTS (SELECT 1 FROM work w
                      WHERE w.tenant_id = l.tenant_id AND w.instance_id = l.instance_id AND w.kind = 0)
), activated AS (
    INSERT INTO activation (tenant_id, key, instance_id, exclusive, strategy, definition_id, correlation_id)
    SELECT w.tenant_id, w.held, w.instance_id, true, w.activation, w.definition_id, nullif(w.correlation_id, '')
    FROM wanted w
    WHERE w.held IS NOT NULL AND NOT w.blocked
    ON CONFLICT DO NOTHING
    RETURNING instance_id
), refused AS (
    SELECT 1 FROM wanted w WHERE w.held IS NOT NULL AND NOT EXISTS (SELECT 1 FROM activated)
), back AS (
    INSERT INTO work (tenant_id, instance_id, kind, definition_id, version_id, definition_version, body)
    SELECT l.tenant_id, l.instance_id, CASE l.kind WHEN 5 THEN 1 ELSE l.kind END, l.definition_id, l.version_id,
           l.definition_version,
           CASE l.kind WHEN 5 THEN json_build_object('bookmarkId', l.timer_id) ELSE l.body END
    FROM letter l
    WHERE NOT EXISTS (SELECT 1 FROM refused)
      AND (l.kind = 0 OR EXISTS (SELECT 1 FROM instance i
                                 WHERE i.tenant_id = l.tenant_id AND i.id = l.instance_id AND i.status = 0))
    -- The start of an instance that somebody has started under the same id meanwhile.
    ON CONFLICT DO NOTHING
    RETURNING id
), gone AS (
    DELETE FROM dead_letter d USING letter l
    WHERE d.tenant_id = l.tenant_id AND d.id = l.id AND NOT EXISTS (SELECT 1 FROM refused)
    RETURNING d.tenant_id, d.work_id
), told AS (
    -- Whoever waits for the row that it was does not mistake it for one that was done.
    INSERT INTO unmet (tenant_id, work_id, given_up)
    SELECT g.tenant_id, g.work_id, true FROM gone g WHERE g.work_id IS NOT NULL
    ON CONFLICT DO NOTHING
)
SELECT l.instance_id, (SELECT b.id FROM back b), EXISTS (SELECT 1 FROM refused) FROM letter l
