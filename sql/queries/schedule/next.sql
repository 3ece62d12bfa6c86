-- purpose: read the microseconds until the next schedule is due, and whether an occurrence is queued
-- caller:  store::schedule
-- index:   schedule_due, schedule_queued
-- locks:   none
SELECT (SELECT (extract(epoch FROM s.next_fire - clock_timestamp()) * 1000000)::bigint
        FROM schedule s
        WHERE s.next_fire IS NOT NULL AND NOT s.paused
          AND (SELECT p.mode = 0 /* running */ FROM cluster_pause p WHERE p.only_row)
        ORDER BY s.next_fire, s.id LIMIT 1) AS next_due,
       EXISTS (SELECT 1 FROM schedule s
               WHERE s.queued IS NOT NULL AND NOT s.paused
                 AND (SELECT p.mode = 0 /* running */ FROM cluster_pause p WHERE p.only_row)) AS queued
