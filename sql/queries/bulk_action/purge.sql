-- purpose: delete bulk actions that finished a while ago
-- caller:  store::bulk_action, a cluster job
-- index:   bulk_action_finished
-- locks:   bulk_action; locked ones are skipped
DELETE FROM bulk_action b
WHERE b.id = ANY (ARRAY(SELECT x.id FROM bulk_action x
                        WHERE x.finished_at < now() - $1::bigint * interval '1 microsecond'
                        ORDER BY x.finished_at LIMIT 1000 FOR UPDATE SKIP LOCKED))
