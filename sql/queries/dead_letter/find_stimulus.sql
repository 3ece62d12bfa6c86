-- purpose: read what the stimulus of a dead letter is for, before its keys are locked
-- caller:  store::dead_letter::stimulus
-- index:   dead_letter_pkey
-- locks:   none
SELECT d.hash, nullif(d.instance_id, '') AS instance_id, d.correlation_id, d.activity_execution_id
FROM dead_letter d WHERE d.tenant_id = $1 AND d.id = $2 AND d.kind = 6 /* inbox */
