-- purpose: instances whose work or timers are late: a lock of theirs may be held by a session of no node
-- caller:  store::doctor
-- index:   work_ready, timer_due
-- locks:   none
-- $1: microseconds.
SELECT o.tenant_id, o.instance_id
FROM (SELECT w.tenant_id, w.instance_id FROM work w
      WHERE w.claimed_by IS NULL AND w.available_at < now() - $1::bigint * interval '1 microsecond'
      ORDER BY w.available_at, w.id LIMIT 1000) o
UNION
SELECT o.tenant_id, o.instance_id
FROM (SELECT t.tenant_id, t.instance_id FROM timer t
      WHERE t.claimed_by IS NULL AND t.available_at < now() - $1::bigint * interval '1 microsecond'
      ORDER BY t.available_at LIMIT 1000) o
