-- purpose: tell whether an instruction still waits or runs
-- caller:  store::work
-- index:   work_pkey
-- locks:   none
SELECT EXISTS (SELECT 1 FROM work w WHERE w.tenant_id = $1 AND w.id = $2)
