-- purpose: delete a dead letter, unless a running instance needs it: for the rest of a burst that yielded, or for a
--          timer
-- caller:  store::dead_letter
-- index:   dead_letter_pkey, instance_pkey, bookmark_pkey, child_pkey
-- locks:   the dead letter
WITH target AS MATERIALIZED (
    SELECT d.* FROM dead_letter d WHERE d.tenant_id = $1 AND d.id = $2 FOR UPDATE
), deleted AS (
    DELETE FROM dead_letter d USING target l
    WHERE d.tenant_id = l.tenant_id AND d.id = l.id
      AND NOT (l.kind = 4 /* continue */ AND EXISTS (SELECT 1 FROM instance i WHERE i.tenant_id = l.tenant_id
                                      AND i.id = l.instance_id AND i.status = 0 /* running */))
      AND NOT (l.kind = 5 /* timer */ AND EXISTS (SELECT 1 FROM bookmark b WHERE b.tenant_id = l.tenant_id
                                      AND b.instance_id = l.instance_id AND b.id = l.timer_id))
    RETURNING d.tenant_id, d.work_id, d.instance_id, d.kind
), noted AS (
    -- A caller that waits for the row must not take it for one that took effect.
    INSERT INTO unmatched_work (tenant_id, work_id, dead_lettered)
    SELECT g.tenant_id, g.work_id, true FROM deleted g WHERE g.work_id IS NOT NULL
    ON CONFLICT DO NOTHING
), child_deleted AS (
    -- A child whose start is given up for good lives no longer; its parent was woken by the dead letter.
    DELETE FROM child c
    WHERE c.id = (SELECT g.instance_id FROM deleted g WHERE g.kind = 0 /* start */) AND c.tenant_id = $1
)
SELECT EXISTS (SELECT 1 FROM target) AS known, EXISTS (SELECT 1 FROM deleted) AS deleted
