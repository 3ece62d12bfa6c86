-- purpose: make work of several dead letters again, of those alone that need no decision of their own (as dead_letter_pick
--          tells); what no instance needs any more is thrown away, and what another replay holds is left to it
-- caller:  store::dead_letter
-- index:   dead_letter_pkey, definition_published, instance_pkey
-- locks:   the letters by id, then work
WITH letter AS MATERIALIZED (
    SELECT d.tenant_id, d.id, d.instance_id, d.kind, d.work_id, d.timer_id, d.definition_id, d.version_id,
           d.definition_version, d.body
    FROM dead_letter d
    WHERE d.tenant_id = $1 AND d.id = ANY ($2::bigint[])
      AND d.kind <> 6 /* inbox */ AND (d.kind <> 0 /* start */ OR (d.body->'payload'->>'scheduleId' IS NULL
                                   AND (SELECT true FROM definition n
                                        WHERE n.tenant_id = d.tenant_id AND n.definition_id = d.definition_id
                                          AND n.is_published AND n.activation_strategy > 0 /* always */ LIMIT 1) IS NULL))
    ORDER BY d.id
    FOR UPDATE OF d SKIP LOCKED
), back AS (
    INSERT INTO work (tenant_id, id, instance_id, kind, definition_id, version_id, definition_version, body)
        OVERRIDING SYSTEM VALUE
    -- As dead_letter_replay: only a start names its definition, a delay comes back as a resume of its bookmark, and a cancel
    -- is claimed first, by its number.
    SELECT l.tenant_id, nextval('work_id_seq') * CASE l.kind WHEN 3 /* cancel */ THEN -1 ELSE 1 END, l.instance_id,
           CASE l.kind WHEN 5 /* timer */ THEN 1 /* resume */ ELSE l.kind END,
           CASE l.kind WHEN 0 /* start */ THEN l.definition_id END, l.version_id, l.definition_version,
           CASE l.kind WHEN 5 /* timer */ THEN json_build_object('bookmarkId', l.timer_id) ELSE l.body END
    FROM letter l
    WHERE l.kind = 0 /* start */ OR (SELECT true FROM instance i
                         WHERE i.tenant_id = l.tenant_id AND i.id = l.instance_id AND i.status = 0 /* running */ LIMIT 1)
    ORDER BY l.id
    ON CONFLICT DO NOTHING
    RETURNING 1
), gone AS (
    DELETE FROM dead_letter d USING letter l
    WHERE d.tenant_id = l.tenant_id AND d.id = l.id
    RETURNING d.tenant_id, d.work_id
), told AS (
    -- A call that waits for the row that it was does not mistake it for one that was done.
    INSERT INTO unmatched_work (tenant_id, work_id, dead_lettered)
    SELECT g.tenant_id, g.work_id, true FROM gone g WHERE g.work_id IS NOT NULL
    ON CONFLICT DO NOTHING
)
SELECT (SELECT count(*) FROM gone) AS taken, (SELECT count(*) FROM back) AS rows
