-- purpose: count timers that are due and not claimed for long, up to 10,000
-- caller:  store::doctor::work
-- index:   timer_due
-- locks:   none
-- $1: microseconds.
SELECT format('%s%s timers are late, first that of instance %s', CASE WHEN count(*) = 10000 THEN 'at least ' ELSE '' END, count(*),
              (array_agg(t.instance_id ORDER BY t.available_at))[1]) AS what,
       min(t.due) AS since, NULL::text AS remedy
FROM (SELECT o.instance_id, o.due, o.available_at FROM timer o
      WHERE o.claimed_by IS NULL AND o.available_at < now() - $1::bigint * interval '1 microsecond'
      ORDER BY o.available_at LIMIT 10000) t
HAVING count(*) > 0
