-- purpose: read the stimulus hash of a dead letter, before its key is locked
-- caller:  store::dead_letter::stimulus
-- index:   dead_letter_pkey
-- locks:   none
SELECT d.hash FROM dead_letter d WHERE d.tenant_id = $1 AND d.id = $2 AND d.kind = 6 /* inbox */
