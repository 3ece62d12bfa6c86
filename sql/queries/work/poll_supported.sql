-- purpose: as work/poll, for a node that cannot run every version: without instances of the versions $5, $6. Rows due
--          before $7, the oldest that an earlier poll found, are left out. With the time of the poll
-- caller:  store::claim
-- index:   work_ready, timer_due, instance_pkey, work_instance, work_pkey
-- locks:   none
-- The version is looked up row by row, in the order of the queue, so that the walk ends when enough rows are found.
SELECT now() AS polled_at, f.tenant_id, f.instance_id, f.count, f.oldest
FROM (SELECT 1) one
LEFT JOIN LATERAL (
    SELECT p.tenant_id, p.instance_id, count(*) AS count, min(p.available_at) AS oldest
    FROM (
        (SELECT w.tenant_id, w.instance_id, w.available_at
         FROM work w
         WHERE w.claimed_by IS NULL AND w.available_at <= now() AND w.available_at >= $7 AND ($4::boolean OR w.crashes < 2)
           AND (SELECT p.mode = 0 /* running */ FROM cluster_pause p WHERE p.only_row)
           AND (w.tenant_id, w.instance_id) NOT IN (SELECT * FROM unnest($2::text[], $3::text[]))
           AND (w.tenant_id, coalesce(
                    w.version_id,
                    (SELECT i.version_id FROM instance i WHERE i.tenant_id = w.tenant_id AND i.id = w.instance_id),
                    (SELECT s.version_id FROM work s
                     WHERE s.tenant_id = w.tenant_id AND s.instance_id = w.instance_id AND s.kind = 0 /* start */
                       AND work_order(s.id, s.definition_id) = 0), ''))
               NOT IN (SELECT * FROM unnest($5::text[], $6::text[]))
         ORDER BY w.available_at, w.id LIMIT $1)
        UNION ALL
        (SELECT t.tenant_id, t.instance_id, t.available_at
         FROM timer t
         WHERE t.claimed_by IS NULL AND t.available_at <= now() AND t.available_at >= $7 AND ($4::boolean OR t.crashes < 2)
           AND (SELECT p.mode = 0 /* running */ FROM cluster_pause p WHERE p.only_row)
           AND (t.tenant_id, t.instance_id) NOT IN (SELECT * FROM unnest($2::text[], $3::text[]))
           AND (t.tenant_id, coalesce(
                    (SELECT i.version_id FROM instance i WHERE i.tenant_id = t.tenant_id AND i.id = t.instance_id), ''))
               NOT IN (SELECT * FROM unnest($5::text[], $6::text[]))
         ORDER BY t.available_at LIMIT $1)
        UNION ALL
        -- The id of a cancel is negative; few wait at a time.
        (SELECT w.tenant_id, w.instance_id, w.available_at
         FROM work w
         WHERE w.id < 0 AND coalesce(w.claimed_by, 0) = 0 AND w.available_at <= now() AND ($4 OR w.crashes < 2)
           AND NOT (SELECT p.mode = 0 /* running */ FROM cluster_pause p WHERE p.only_row)
           AND (w.tenant_id, w.instance_id) NOT IN (SELECT * FROM unnest($2, $3))
           AND (w.tenant_id, coalesce(
                    (SELECT i.version_id FROM instance i WHERE i.tenant_id = w.tenant_id AND i.id = w.instance_id),
                    (SELECT s.version_id FROM work s
                     WHERE s.tenant_id = w.tenant_id AND s.instance_id = w.instance_id AND s.kind = 0 /* start */
                       AND work_order(s.id, s.definition_id) = 0), ''))
               NOT IN (SELECT * FROM unnest($5, $6))
         ORDER BY w.id LIMIT $1)
    ) p
    GROUP BY p.tenant_id, p.instance_id
    ORDER BY min(p.available_at)
    LIMIT $1
) f ON true
ORDER BY f.oldest
