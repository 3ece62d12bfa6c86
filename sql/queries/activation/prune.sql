-- purpose: delete keys that are not exclusive and no longer true: the instance ended or took another correlation id
-- caller:  store::activation, in a transaction that begins after all that cannot see the keys have ended
-- index:   none: rare, and the table holds only what runs
-- locks:   activation rows that are not exclusive; locked ones are skipped
DELETE FROM activation a
USING (SELECT o.tenant_id, o.key, o.instance_id FROM activation o
       WHERE o.tenant_id = $1 AND NOT o.exclusive AND (o.definition_id = $2 OR o.strategy = 3 /* correlation */)
         AND NOT activation_counts(o.tenant_id, o.instance_id, o.strategy, o.definition_id, o.correlation_id)
       FOR UPDATE SKIP LOCKED) stale
WHERE a.tenant_id = stale.tenant_id AND a.key = stale.key AND a.instance_id = stale.instance_id
