-- purpose: pause or resume a schedule, or update it for another time zone database, if it is still at that version
-- caller:  store::schedule
-- index:   schedule_pkey
-- locks:   schedule
UPDATE schedule s
SET version = s.version + 1, paused = $4, tz_version = $5, last_occurrence = $6, next_occurrence = $7, next_fire = $8
WHERE s.tenant_id = $1 AND s.id = $2 AND s.version = $3
  AND (s.last_occurrence IS NULL OR $6::timestamptz >= s.last_occurrence)
RETURNING s.version
