-- purpose: list schedules for an operator: the next due first, ended and paused ones last
-- caller:  store::schedule
-- index:   scans those of the tenant; rare calls of an operator
-- locks:   none
WITH found AS MATERIALIZED (
    SELECT s.*,
           CASE WHEN s.paused THEN 'paused' WHEN s.next_fire IS NULL AND s.queued IS NULL THEN 'ended'
                WHEN s.next_fire <= clock_timestamp() THEN 'due' ELSE 'waiting' END AS state
    FROM schedule s
    WHERE s.tenant_id = $1
      AND ($2::text IS NULL OR s.definition_id = $2)
      AND ($3::text IS NULL OR s.activity_type = $3)
      AND ($5::text IS NULL OR s.id = $5)
)
SELECT count(*) OVER () AS total, f.id, f.definition_id, f.activity_id, f.activity_type, f.spec, f.state, f.next_occurrence,
       f.next_fire, f.last_occurrence, f.queued, f.fired, f.misfired, f.skipped, f.last_fired_at, f.last_lateness,
       f.last_node, f.last_instance
FROM found f
WHERE $4::text IS NULL OR f.state = $4
ORDER BY f.paused, f.next_fire NULLS LAST, f.id
LIMIT $6 OFFSET $7
