-- purpose: check in, and learn in the same round trip what there is to do and who is late
-- caller:  store::node, from the check-in thread
-- index:   node_pkey, timer_due, work_ready
-- locks:   own node row
WITH beat AS (
    UPDATE node SET last_seen = clock_timestamp() WHERE incarnation = $1 RETURNING 1
)
SELECT EXISTS (SELECT 1 FROM beat)
           AND EXISTS (SELECT 1 FROM fence f WHERE f.incarnation = $1) AS registered,
       (SELECT r.revision FROM revision r) AS revision,
       (SELECT (extract(epoch FROM min(d.at) - clock_timestamp()) * 1000000)::bigint
        FROM (SELECT (SELECT t.available_at FROM timer t WHERE t.claimed_by IS NULL ORDER BY t.available_at LIMIT 1)
              UNION ALL
              SELECT (SELECT w.available_at FROM work w WHERE w.claimed_by IS NULL
                      ORDER BY w.available_at, w.id LIMIT 1)) d(at)) AS next_due,
       ARRAY(SELECT n.incarnation FROM node n
             WHERE n.last_seen < clock_timestamp() - n.tolerance AND n.incarnation <> $1) AS expired
