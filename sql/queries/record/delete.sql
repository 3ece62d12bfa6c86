-- purpose: delete the records of instances that exist no more, between the times of the first and the last of them; planned
--          for each call, so that only the partitions of these days are locked
-- caller:  store::record::times, in the transaction that deletes the instances
-- index:   burst_record_pkey
-- locks:   the records, which no other transaction writes or locks
DELETE FROM burst_record r WHERE r.tenant_id = $1 AND r.instance_id = ANY ($2) AND r.at BETWEEN $3 AND $4
