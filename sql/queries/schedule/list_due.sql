-- purpose: list the schedules that are due, oldest first, without locking; with whether an instance of each still
--          runs, where its overlap policy needs that
-- caller:  store::schedule
-- index:   schedule_due, activation_held
-- locks:   none
SELECT s.tenant_id, s.id, s.definition_id, s.activity_id, s.spec, s.anchor, s.version, s.last_occurrence, s.next_occurrence,
       s.next_fire, s.queued,
       -- Without EXISTS, whose plan may hash all of activation.
       s.overlap > 0 /* allow */ AND coalesce((SELECT true FROM activation a
                                   WHERE a.tenant_id = s.tenant_id AND a.key = schedule_key(s.id) AND a.exclusive
                                   LIMIT 1), false) AS is_running,
       now() AS now
FROM schedule s
WHERE s.next_fire <= now() AND s.next_fire IS NOT NULL AND NOT s.paused
  AND (SELECT p.mode = 0 /* running */ FROM cluster_pause p WHERE p.only_row)
ORDER BY s.next_fire, s.id
LIMIT $1
