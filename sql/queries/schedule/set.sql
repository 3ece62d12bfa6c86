-- purpose: pause a schedule, let it go on, or write what another time zone database makes of it, if it still is at that
--          version; whether it was
-- caller:  store::schedule
-- index:   schedule_pkey
-- locks:   schedule
UPDATE schedule s
SET version = s.version + 1, paused = $4, tz_version = $5, last_occurrence = $6, next_occurrence = $7, next_fire = $8
WHERE s.tenant_id = $1 AND s.id = $2 AND s.version = $3
  AND (s.last_occurrence IS NULL OR $6::timestamptz >= s.last_occurrence)
RETURNING s.version
