-- purpose: dead letters by cause, of the newest 10,000, with the reason of the newest
-- caller:  store::doctor::work
-- index:   dead_letter_pkey
-- locks:   none
SELECT format('%s dead letters with the cause %s; the newest is of instance %s: %s', count(*), d.cause,
              coalesce(nullif((array_agg(d.instance_id ORDER BY d.id DESC))[1], ''), '(none)'),
              left((array_agg(d.reason ORDER BY d.id DESC))[1], 200)) AS what,
       min(d.created_at) AS since, NULL::text AS remedy
FROM (SELECT o.id, o.instance_id, o.reason, o.created_at,
             CASE WHEN o.kind = 6 /* inbox */ THEN 'expired' WHEN o.failures >= 20 THEN 'failed' ELSE 'crashed' END AS cause
      FROM dead_letter o ORDER BY o.id DESC LIMIT 10000) d
GROUP BY d.cause
ORDER BY d.cause
