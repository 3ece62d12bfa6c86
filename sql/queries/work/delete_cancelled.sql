-- purpose: delete a page of the work of an instance that was cancelled, after the row $3; rows that a caller may wait
--          for are recorded as unmatched
-- caller:  store::work
-- index:   instance_pkey, work_instance
-- locks:   work by id; rows that another session has locked are skipped, and match nothing in a burst of their own
-- An instance that was deleted meanwhile, or a new one under its id, has not ended in this snapshot.
WITH ended AS MATERIALIZED (
    SELECT 1 FROM instance i WHERE i.tenant_id = $1 AND i.id = $2 AND i.status = 1 /* finished */
), page AS MATERIALIZED (
    SELECT w.ctid AS place
    FROM work w
    WHERE w.tenant_id = $1 AND w.instance_id = $2 AND w.id + 0 > $3 AND coalesce(w.claimed_by, 0) = 0
      -- A start that lost the race for its id; its burst deletes the key that it holds.
      AND w.kind <> 0 /* start */
      AND EXISTS (SELECT 1 FROM ended)
    ORDER BY w.id + 0 LIMIT $4
    FOR UPDATE SKIP LOCKED
), deleted AS (
    DELETE FROM work w USING page p WHERE w.ctid = p.place RETURNING w.id, w.kind
), noted AS (
    INSERT INTO unmatched_work (tenant_id, work_id)
    SELECT $1, g.id FROM deleted g WHERE g.kind IN (1 /* resume */, 3 /* cancel */)
)
SELECT g.id FROM deleted g ORDER BY g.id
