-- purpose: count rows of work that are due and not claimed for long, up to 10,000
-- caller:  store::doctor::work
-- index:   work_ready
-- locks:   none
-- $1: microseconds.
SELECT format('%s%s rows of work wait, first one of instance %s', CASE WHEN count(*) = 10000 THEN 'at least ' ELSE '' END, count(*),
              (array_agg(w.instance_id ORDER BY w.available_at))[1]) AS what,
       min(w.available_at) AS since, NULL::text AS remedy
FROM (SELECT o.instance_id, o.available_at FROM work o
      WHERE o.claimed_by IS NULL AND o.available_at < now() - $1::bigint * interval '1 microsecond'
      ORDER BY o.available_at, o.id LIMIT 10000) w
HAVING count(*) > 0
