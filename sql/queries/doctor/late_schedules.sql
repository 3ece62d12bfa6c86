-- purpose: schedules whose next occurrence is late
-- caller:  store::doctor::work
-- index:   schedule_due
-- locks:   none
-- $1: microseconds.
SELECT format('schedule %s of definition %s has not fired', s.id, s.definition_id) AS what, s.next_fire AS since, NULL::text AS remedy
FROM schedule s
WHERE s.next_fire IS NOT NULL AND NOT s.paused AND s.next_fire < now() - $1::bigint * interval '1 microsecond'
ORDER BY s.next_fire, s.id
LIMIT 10
