-- purpose: list instances that have something to do now, oldest first, without locking or claiming anything; with how
--          many of the oldest rows each has: $1 in all mean that there may be more instances. What has been in the
--          hands of two processes that died is shown only if $4; and since when the oldest row of each waits. Also,
--          without any instance too: in how many microseconds the next row is due that is not due yet. Rows older than $5
--          are not looked at,
--          nor what has been due for longer than $6 microseconds, unless that is null; of a backlog only part $8 of $7,
--          so that nodes which look at the same moment do not all try to get the same
-- caller:  store::claim
-- index:   work_ready, timer_due
-- locks:   none
-- A part is looked for among four times as many rows as it may have: one instance may have any number of them, of another part.
-- $5 spares the walk over what was claimed and is gone, which stands in the indexes for as long as anybody in the
-- database holds an old snapshot.
-- NOT IN is hashed; NOT EXISTS would compare every row of a busy instance that is left out with the whole list. What
-- comes next is the next entry of each index, however many there are.
SELECT (extract(epoch FROM n.at - clock_timestamp()) * 1000000)::bigint AS next_due, f.tenant_id, f.instance_id, f.count, f.isolated,
       f.oldest
FROM (SELECT least((SELECT w.available_at FROM work w
                    WHERE w.claimed_by IS NULL AND w.available_at > now()
                    ORDER BY w.available_at, w.id LIMIT 1),
                   (SELECT t.available_at FROM timer t
                    WHERE t.claimed_by IS NULL AND t.available_at > now()
                    ORDER BY t.available_at LIMIT 1))) n(at)
LEFT JOIN LATERAL (
    SELECT p.tenant_id, p.instance_id, count(*) AS count, bool_or(p.isolated) AS isolated, min(p.available_at) AS oldest
    FROM (
        (SELECT x.tenant_id, x.instance_id, x.available_at, x.isolated
         FROM (SELECT w.tenant_id, w.instance_id, w.available_at, w.id, w.crashes >= 2 AS isolated
               FROM work w
               WHERE w.claimed_by IS NULL AND w.available_at <= now()
                 AND w.available_at >= greatest($5, now() - $6::bigint * interval '1 microsecond')
                 AND ($4::boolean OR w.crashes < 2)
                 AND (w.tenant_id, w.instance_id) NOT IN (SELECT * FROM unnest($2::text[], $3::text[]))
               ORDER BY w.available_at, w.id LIMIT $1::bigint * $7::integer * 4) x
         WHERE $7 = 1 OR (hashtext(x.instance_id) & 2147483647) % $7 = $8::integer
         ORDER BY x.available_at, x.id LIMIT $1)
        UNION ALL
        (SELECT x.tenant_id, x.instance_id, x.available_at, x.isolated
         FROM (SELECT t.tenant_id, t.instance_id, t.available_at, t.crashes >= 2 AS isolated
               FROM timer t
               WHERE t.claimed_by IS NULL AND t.available_at <= now()
                 AND t.available_at >= greatest($5, now() - $6::bigint * interval '1 microsecond')
                 AND ($4::boolean OR t.crashes < 2)
                 AND (t.tenant_id, t.instance_id) NOT IN (SELECT * FROM unnest($2::text[], $3::text[]))
               ORDER BY t.available_at LIMIT $1::bigint * $7 * 4) x
         WHERE $7 = 1 OR (hashtext(x.instance_id) & 2147483647) % $7 = $8
         ORDER BY x.available_at LIMIT $1)
    ) p
    GROUP BY p.tenant_id, p.instance_id
    ORDER BY min(p.available_at)
    LIMIT $1
) f ON true
ORDER BY f.oldest
