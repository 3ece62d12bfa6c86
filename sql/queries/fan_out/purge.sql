-- purpose: delete a page of fan-outs that finished a while ago and whose payload no row of work needs; no time: none is left
-- caller:  store::fan_out, a cluster job
-- index:   fan_out_finished, work_fan_out, fan_out_owed_pkey
-- locks:   fan_out; locked ones are skipped
-- $2: when the last one of the page before had finished; deleted rows stay in the index while an old snapshot exists.
WITH purged AS (
    -- OFFSET 0 keeps the lookup of work a lookup per row, in the order of the index: else some statistics make a merge join of
    -- it, which reads all of both tables.
    DELETE FROM fan_out f
    WHERE f.id = ANY (ARRAY(SELECT x.id FROM fan_out x
                            WHERE x.finished_at < now() - $1::bigint * interval '1 microsecond'
                              AND x.finished_at >= coalesce($2::timestamptz, '-infinity')
                              AND NOT EXISTS (SELECT 1 FROM work w WHERE w.fan_out = x.id OFFSET 0)
                            ORDER BY x.finished_at LIMIT 1000 FOR UPDATE SKIP LOCKED))
    RETURNING f.id, f.finished_at
), owed AS (
    -- Inserted after the last page, by a commit that began before it.
    DELETE FROM fan_out_owed o WHERE o.fan_out = ANY (ARRAY(SELECT p.id FROM purged p))
)
SELECT max(p.finished_at) AS reached FROM purged p
