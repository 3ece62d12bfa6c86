-- purpose: lock the oldest unfinished fan-out that no other node works on and whose turn it is: it has begun, or it is the
--          first of its hash and none of its hash has begun
-- caller:  store::fan_out, the first statement of a step
-- index:   fan_out_unfinished, fan_out_hash, fan_out_begun
-- locks:   fan_out; a locked one is skipped
-- Those before $2 are finished, and their entries may still be in the indexes.
SELECT f.id, f.tenant_id, f.hash, f.name, f.correlation_id, f.instance_id, f.activity_execution_id, f.cut, f.cursor
FROM fan_out f
WHERE f.finished_at IS NULL AND f.id + 0 >= $2 AND f.id <> ALL ($1::bigint[])
  AND (SELECT p.mode = 0 /* running */ FROM cluster_pause p WHERE p.only_row)
  -- No join: it would compare all unfinished ones with each other.
  AND CASE WHEN f.cut IS NULL
           THEN (SELECT true FROM fan_out e
                 WHERE e.hash = f.hash AND e.tenant_id = f.tenant_id AND e.id < f.id AND e.id >= $2 AND e.finished_at IS NULL
                 LIMIT 1) IS NULL
            -- One that a workflow published may become visible after a later one has begun.
            AND (SELECT true FROM fan_out b
                 WHERE b.hash = f.hash AND b.tenant_id = f.tenant_id AND b.cut IS NOT NULL AND b.finished_at IS NULL
                 LIMIT 1) IS NULL
           ELSE true END
ORDER BY f.id + 0
LIMIT 1
FOR UPDATE SKIP LOCKED
