-- purpose: make work of a dead letter again, as if nothing had happened; a delay comes back as a resume of its bookmark,
--          as only work may be added to an instance without its fence
-- caller:  store::dead_letter
-- index:   dead_letter_pkey, work_start
-- locks:   the letter, then work
WITH letter AS MATERIALIZED (
    SELECT d.* FROM dead_letter d WHERE d.tenant_id = $1 AND d.id = $2 FOR UPDATE
), back AS (
    INSERT INTO work (tenant_id, instance_id, kind, definition_id, version_id, definition_version, body)
    SELECT l.tenant_id, l.instance_id, CASE l.kind WHEN 5 THEN 1 ELSE l.kind END, l.definition_id, l.version_id,
           l.definition_version,
           CASE l.kind WHEN 5 THEN json_build_object('bookmarkId', l.timer_id) ELSE l.body END
    FROM letter l
    WHERE l.kind = 0 OR EXISTS (SELECT 1 FROM instance i
                                WHERE i.tenant_id = l.tenant_id AND i.id = l.instance_id AND i.status = 0)
    -- The start of an instance that somebody has started under the same id meanwhile.
    ON CONFLICT DO NOTHING
)
DELETE FROM dead_letter d USING letter l WHERE d.tenant_id = l.tenant_id AND d.id = l.id
RETURNING d.instance_id
