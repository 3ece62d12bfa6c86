-- purpose: delete a page of fan-outs that finished a while ago and whose payload no row of work needs; no row: none is left
-- caller:  store::fan_out, a cluster job
-- index:   fan_out_finished, work_fan_out, fan_out_owed_pkey
-- locks:   fan_out; locked ones are skipped
WITH purged AS (
    -- OFFSET 0 keeps the lookup of work a lookup per row, in the order of the index: else some statistics make a merge join of
    -- it, which reads all of both tables.
    DELETE FROM fan_out f
    WHERE f.id = ANY (ARRAY(SELECT x.id FROM fan_out x
                            WHERE x.finished_at < now() - $1::bigint * interval '1 microsecond'
                              AND NOT EXISTS (SELECT 1 FROM work w WHERE w.fan_out = x.id OFFSET 0)
                            ORDER BY x.finished_at LIMIT 1000 FOR UPDATE SKIP LOCKED))
    RETURNING f.id
), owed AS (
    -- Inserted after the last page, by a commit that began before it.
    DELETE FROM fan_out_owed o WHERE o.fan_out = ANY (ARRAY(SELECT p.id FROM purged p))
)
SELECT p.id FROM purged p
