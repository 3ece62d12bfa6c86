-- purpose: count what was given up
-- caller:  store::dead_letter
-- index:   dead_letter_pkey
-- locks:   none
SELECT count(*) FROM dead_letter d WHERE d.tenant_id = $1
