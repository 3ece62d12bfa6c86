-- purpose: throw away the notes of what had ended, or had taken another correlation id, before it could see them
-- caller:  store::activation, in a transaction that began when nobody was left who could not see the notes
-- index:   none: rare, and the table holds only what runs
-- locks:   activation rows that are not exclusive; one that somebody has locked is his
DELETE FROM activation a
USING (SELECT o.tenant_id, o.key, o.instance_id FROM activation o
       WHERE o.tenant_id = $1 AND NOT o.exclusive AND (o.definition_id = $2 OR o.strategy = 3 /* correlation */)
         AND NOT activation_counts(o.tenant_id, o.instance_id, o.strategy, o.definition_id, o.correlation_id)
       FOR UPDATE SKIP LOCKED) gone
WHERE a.tenant_id = gone.tenant_id AND a.key = gone.key AND a.instance_id = gone.instance_id
