-- purpose: work and timers that have failed and are tried again, or run alone after crashes
-- caller:  store::doctor::work
-- index:   work_ready, timer_postponed
-- locks:   none
-- No row waits for longer than two minutes after a failure.
SELECT format('%s of instance %s %s', r.what, r.instance_id,
              CASE WHEN r.crashes >= 2 THEN 'runs alone, as ' || r.crashes || ' processes crashed with it'
                   ELSE 'has failed ' || r.failures || ' times and is tried again' END) AS what,
       r.since, NULL::text AS remedy
FROM (SELECT 'work ' || w.id AS what, w.instance_id, w.failures, w.crashes, w.created_at AS since
      FROM (SELECT * FROM work o
            WHERE o.claimed_by IS NULL AND o.available_at > now() - interval '2 minutes'
              AND o.available_at < now() + interval '2 minutes'
            ORDER BY o.available_at, o.id LIMIT 10000) w
      WHERE w.failures >= 3 OR w.crashes >= 2
      UNION ALL
      SELECT 'timer ' || t.id, t.instance_id, t.failures, t.crashes, t.due
      FROM (SELECT * FROM timer o WHERE o.claimed_by IS NULL AND o.available_at > o.due ORDER BY o.available_at LIMIT 10000) t
      WHERE t.failures >= 3 OR t.crashes >= 2) r
ORDER BY r.since
LIMIT 10
