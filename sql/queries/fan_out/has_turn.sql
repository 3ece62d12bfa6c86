-- purpose: read whether no other fan-out of the same keys has begun; a snapshot before they were locked may not have shown it
-- caller:  store::fan_out, in the transaction that holds the fan-out and its stimulus keys, before its turn
-- index:   fan_out_begun
-- locks:   none
SELECT NOT EXISTS (SELECT 1 FROM fan_out b
                   WHERE b.hash = $3 AND b.tenant_id = $2 AND b.cut IS NOT NULL AND b.finished_at IS NULL AND b.id <> $1
                     AND b.correlation_id IS NOT DISTINCT FROM $4 AND b.instance_id IS NOT DISTINCT FROM $5) AS has_turn
