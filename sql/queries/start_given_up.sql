-- purpose: tell whether the start of an instance is a dead letter
-- caller:  store::work
-- index:   dead_letter_instance
-- locks:   none
SELECT EXISTS (SELECT 1 FROM dead_letter d WHERE d.tenant_id = $1 AND d.instance_id = $2 AND d.kind = 0)
