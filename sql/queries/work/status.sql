-- purpose: read the result of a row of work: it waits or runs, it matched nothing, it was discarded with its request, it is or
--          was a dead letter, or else it took effect
-- caller:  store::work
-- index:   work_pkey, unmatched_work_pkey, dead_letter_instance
-- locks:   none; one snapshot, as one statement deletes a row and records its result
-- By the instance, too: after a crash of the server the ids of rows that were not flushed are used again.
SELECT EXISTS (SELECT 1 FROM work w WHERE w.tenant_id = $1 AND w.id = $2 AND w.instance_id = $3) AS waits,
       EXISTS (SELECT 1 FROM unmatched_work u WHERE u.tenant_id = $1 AND u.work_id = $2
           AND NOT u.dead_lettered AND NOT u.discarded) AS unmatched,
       EXISTS (SELECT 1 FROM unmatched_work u WHERE u.tenant_id = $1 AND u.work_id = $2 AND u.discarded) AS discarded,
       EXISTS (SELECT 1 FROM unmatched_work u WHERE u.tenant_id = $1 AND u.work_id = $2 AND u.dead_lettered)
       OR EXISTS (SELECT 1 FROM dead_letter d
                  WHERE d.tenant_id = $1 AND d.instance_id = $3 AND d.work_id = $2) AS dead_lettered
