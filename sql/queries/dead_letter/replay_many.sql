-- purpose: replay several dead letters that need no check of their own (as dead_letter/pick marks them); those that
--          no instance needs any more are deleted, and those that another replay holds are skipped
-- caller:  store::dead_letter
-- index:   dead_letter_pkey, definition_published, instance_pkey
-- locks:   the dead letters by id, then work
-- One statement with dead_letter/replay would check schedule and activation of each row, and one refused row would
-- keep all others: that one waits for its row and reports a refusal, this one skips what is locked.
WITH target AS MATERIALIZED (
    SELECT d.tenant_id, d.id, d.instance_id, d.kind, d.work_id, d.timer_id, d.definition_id, d.version_id,
           d.definition_version, d.body, d.replays
    FROM dead_letter d
    WHERE d.tenant_id = $1 AND d.id = ANY ($2::bigint[])
      AND d.kind <> 6 /* inbox */ AND (d.kind <> 0 /* start */ OR (d.body->'payload'->>'scheduleId' IS NULL
                                   AND (SELECT true FROM definition n
                                        WHERE n.tenant_id = d.tenant_id AND n.definition_id = d.definition_id
                                          AND n.is_published AND n.activation_strategy > 0 /* always */ LIMIT 1) IS NULL))
      AND (SELECT CASE p.mode WHEN 0 /* running */ THEN true ELSE raise_paused(p.reason) END
           FROM cluster_pause p WHERE p.only_row)
    ORDER BY d.id
    FOR UPDATE OF d SKIP LOCKED
), back AS (
    INSERT INTO work (tenant_id, id, instance_id, kind, definition_id, version_id, definition_version, body, replays)
        OVERRIDING SYSTEM VALUE
    -- As dead_letter/replay: only a start has a definition_id, a timer becomes a resume of its bookmark, and the id of a
    -- cancel is negative.
    SELECT l.tenant_id, nextval('work_id_seq') * CASE l.kind WHEN 3 /* cancel */ THEN -1 ELSE 1 END, l.instance_id,
           CASE l.kind WHEN 5 /* timer */ THEN 1 /* resume */ ELSE l.kind END,
           CASE l.kind WHEN 0 /* start */ THEN l.definition_id END, l.version_id, l.definition_version,
           CASE l.kind WHEN 5 /* timer */ THEN json_build_object('bookmarkId', l.timer_id) ELSE l.body END,
           -- A timer by its bookmark and the generation of the instance.
           coalesce(l.replays, l.work_id::text,
                    l.timer_id || '@' || (SELECT (extract(epoch FROM g.created_at) * 1000000)::bigint FROM instance g
                                          WHERE g.tenant_id = l.tenant_id AND g.id = l.instance_id LIMIT 1))
    FROM target l
    WHERE l.kind = 0 /* start */ OR (SELECT true FROM instance i
                         WHERE i.tenant_id = l.tenant_id AND i.id = l.instance_id AND i.status = 0 /* running */ LIMIT 1)
    ORDER BY l.id
    ON CONFLICT DO NOTHING
    RETURNING 1
), deleted AS (
    DELETE FROM dead_letter d USING target l
    WHERE d.tenant_id = l.tenant_id AND d.id = l.id
    RETURNING d.tenant_id, d.work_id
), noted AS (
    -- A caller that waits for the row must not take it for one that took effect.
    INSERT INTO unmatched_work (tenant_id, work_id, dead_lettered)
    SELECT g.tenant_id, g.work_id, true FROM deleted g WHERE g.work_id IS NOT NULL
    ON CONFLICT DO NOTHING
)
SELECT (SELECT count(*) FROM deleted) AS taken, (SELECT count(*) FROM back) AS rows
