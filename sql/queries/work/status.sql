-- purpose: tell whether an instruction still waits or runs, and if not, what became of it: it met nothing, it was given up
--          (as a dead letter, or one that is gone by now), or else it met what it was meant for
-- caller:  store::work
-- index:   work_pkey, unmatched_work_pkey, dead_letter_instance
-- locks:   none; one snapshot, as a row and what tells of its end are written by one statement
-- By the instance, too: a crash of the server may take rows that were not flushed, and their numbers are given out again.
SELECT EXISTS (SELECT 1 FROM work w WHERE w.tenant_id = $1 AND w.id = $2 AND w.instance_id = $3) AS waits,
       EXISTS (SELECT 1 FROM unmatched_work u WHERE u.tenant_id = $1 AND u.work_id = $2 AND NOT u.dead_lettered) AS unmatched,
       EXISTS (SELECT 1 FROM unmatched_work u WHERE u.tenant_id = $1 AND u.work_id = $2 AND u.dead_lettered)
       OR EXISTS (SELECT 1 FROM dead_letter d
                  WHERE d.tenant_id = $1 AND d.instance_id = $3 AND d.work_id = $2) AS dead_lettered
