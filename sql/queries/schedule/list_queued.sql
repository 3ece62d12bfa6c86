-- purpose: list the schedules with a queued occurrence and no running instance
-- caller:  store::schedule
-- index:   schedule_queued, activation_held
-- locks:   none
SELECT s.tenant_id, s.id, s.definition_id, s.activity_id, s.spec, s.anchor, s.version, s.last_occurrence, s.next_occurrence,
       s.next_fire, s.queued, false AS is_running, now() AS now
FROM schedule s
WHERE s.queued IS NOT NULL AND NOT s.paused
  AND (SELECT p.mode = 0 /* running */ FROM cluster_pause p WHERE p.only_row)
  AND NOT EXISTS (SELECT 1 FROM activation a
                  WHERE a.tenant_id = s.tenant_id AND a.key = schedule_key(s.id) AND a.exclusive)
ORDER BY s.tenant_id, s.id
LIMIT $1
