-- purpose: list schedules whose next occurrence was computed with an older time zone database than $1
-- caller:  store::schedule, once per registration and rarely after
-- index:   scans the table
-- locks:   none
SELECT s.tenant_id, s.id, s.definition_id, s.activity_id, s.spec, s.anchor, s.version, s.last_occurrence, s.next_occurrence,
       s.next_fire, s.queued, false AS is_running, clock_timestamp() AS now, s.paused
FROM schedule s
WHERE s.tz_version < $1 AND (s.tenant_id, s.id) > ($2, $3)
ORDER BY s.tenant_id, s.id
LIMIT $4
