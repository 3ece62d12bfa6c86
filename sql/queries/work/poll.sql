-- purpose: list instances with work that is ready, oldest first, without locks or claims, each with how many of the
--          oldest $1 rows are its own, and since when its oldest waits; isolated rows (crashes >= 2) count only if $4.
--          Also in how many microseconds the next row is due. Rows due before $5 are left out, and rows due for longer
--          than $6 microseconds unless that is null; of a backlog only shard $8 of $7, so that nodes that poll at the
--          same moment try different instances. While the cluster is paused only cancels are listed
-- caller:  store::claim
-- index:   work_ready, timer_due, work_pkey
-- locks:   none
-- A shard is read from four times as many rows as it may return: one instance may have any number of them, in another shard.
-- $5 spares the walk over consumed rows, which stay in the indexes while an old snapshot exists in the database.
-- NOT IN is hashed; NOT EXISTS would compare every row of a busy instance that is left out with the whole list.
SELECT (extract(epoch FROM n.at - clock_timestamp()) * 1000000)::bigint AS next_due, f.tenant_id, f.instance_id,
       f.count, f.oldest
FROM (SELECT least((SELECT w.available_at FROM work w
                    WHERE w.claimed_by IS NULL AND w.available_at > now()
                      AND (SELECT p.mode = 0 /* running */ FROM cluster_pause p WHERE p.only_row)
                    ORDER BY w.available_at, w.id LIMIT 1),
                   (SELECT t.available_at FROM timer t
                    WHERE t.claimed_by IS NULL AND t.available_at > now()
                      AND (SELECT p.mode = 0 /* running */ FROM cluster_pause p WHERE p.only_row)
                    ORDER BY t.available_at LIMIT 1))) n(at)
LEFT JOIN LATERAL (
    SELECT p.tenant_id, p.instance_id, count(*) AS count, min(p.available_at) AS oldest
    FROM (
        (SELECT x.tenant_id, x.instance_id, x.available_at
         FROM (SELECT w.tenant_id, w.instance_id, w.available_at, w.id
               FROM work w
               WHERE w.claimed_by IS NULL AND w.available_at <= now()
                 AND (SELECT p.mode = 0 /* running */ FROM cluster_pause p WHERE p.only_row)
                 AND w.available_at >= greatest($5, now() - $6::bigint * interval '1 microsecond')
                 AND ($4::boolean OR w.crashes < 2)
                 AND (w.tenant_id, w.instance_id) NOT IN (SELECT * FROM unnest($2::text[], $3::text[]))
               ORDER BY w.available_at, w.id LIMIT $1::bigint * $7::integer * 4) x
         WHERE $7 = 1 OR (hashtext(x.instance_id) & 2147483647) % $7 = $8::integer
         ORDER BY x.available_at, x.id LIMIT $1)
        UNION ALL
        (SELECT x.tenant_id, x.instance_id, x.available_at
         FROM (SELECT t.tenant_id, t.instance_id, t.available_at
               FROM timer t
               WHERE t.claimed_by IS NULL AND t.available_at <= now()
                 AND (SELECT p.mode = 0 /* running */ FROM cluster_pause p WHERE p.only_row)
                 AND t.available_at >= greatest($5, now() - $6::bigint * interval '1 microsecond')
                 AND ($4::boolean OR t.crashes < 2)
                 AND (t.tenant_id, t.instance_id) NOT IN (SELECT * FROM unnest($2::text[], $3::text[]))
               ORDER BY t.available_at LIMIT $1::bigint * $7 * 4) x
         WHERE $7 = 1 OR (hashtext(x.instance_id) & 2147483647) % $7 = $8
         ORDER BY x.available_at LIMIT $1)
        UNION ALL
        -- The id of a cancel is negative; few wait at a time.
        (SELECT w.tenant_id, w.instance_id, w.available_at
         FROM work w
         WHERE w.id < 0 AND coalesce(w.claimed_by, 0) = 0 AND w.available_at <= now() AND ($4 OR w.crashes < 2)
           AND NOT (SELECT p.mode = 0 /* running */ FROM cluster_pause p WHERE p.only_row)
           AND (w.tenant_id, w.instance_id) NOT IN (SELECT * FROM unnest($2, $3))
         ORDER BY w.id LIMIT $1)
    ) p
    GROUP BY p.tenant_id, p.instance_id
    ORDER BY min(p.available_at)
    LIMIT $1
) f ON true
ORDER BY f.oldest
