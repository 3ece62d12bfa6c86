-- purpose: read in how many microseconds the next row is due for a node that cannot run the versions $1, $2. After a
--          thousand rows of such versions: when the last of those is due; the node asks again then
-- caller:  store::claim
-- index:   work_ready, timer_due, instance_pkey
-- locks:   none
WITH ahead AS MATERIALIZED (
    (SELECT w.tenant_id, w.instance_id, w.version_id, w.available_at
     FROM work w
     WHERE w.claimed_by IS NULL AND w.available_at > now() - interval '100 milliseconds'
       AND (SELECT p.mode = 0 /* running */ FROM cluster_pause p WHERE p.only_row)
     ORDER BY w.available_at, w.id LIMIT 1000)
    UNION ALL
    (SELECT t.tenant_id, t.instance_id, NULL, t.available_at
     FROM timer t
     WHERE t.claimed_by IS NULL AND t.available_at > now() - interval '100 milliseconds'
       AND (SELECT p.mode = 0 /* running */ FROM cluster_pause p WHERE p.only_row)
     ORDER BY t.available_at LIMIT 1000)
), ours AS (
    SELECT a.available_at
    FROM ahead a
    -- Without a join, whose plan may hash all instances.
    WHERE (a.tenant_id, coalesce(
               a.version_id,
               (SELECT i.version_id FROM instance i WHERE i.tenant_id = a.tenant_id AND i.id = a.instance_id), ''))
          NOT IN (SELECT * FROM unnest($1::text[], $2::text[]))
)
SELECT (extract(epoch FROM coalesce((SELECT min(o.available_at) FROM ours o),
                                    (SELECT max(a.available_at) FROM ahead a HAVING count(*) >= 1000)) - now())
        * 1000000)::bigint AS next_due
