-- purpose: bookmarks, in a sample of 300 pages, without an instance that runs, and delays without a timer
-- caller:  store::doctor::work
-- index:   instance_pkey, timer_pkey, dead_letter_instance, work_instance
-- locks:   none
-- $1: microseconds. `mainspring check` reads all of them.
SELECT o.what, o.since, NULL::text AS remedy
FROM (
    SELECT format('bookmark %s of instance %s has no instance that runs', b.id, b.instance_id) AS what, b.created_at AS since
    FROM bookmark b TABLESAMPLE SYSTEM (
        (SELECT least(100, 30000.0 / greatest(pg_relation_size('bookmark'::regclass) / current_setting('block_size')::bigint, 1))))
    WHERE b.created_at < now() - $1::bigint * interval '1 microsecond'
      AND NOT EXISTS (SELECT 1 FROM instance i
                      WHERE i.id = b.instance_id AND i.tenant_id = b.tenant_id AND i.status = 0 /* running */)
    UNION ALL
    SELECT format('the delay %s of instance %s has no timer', b.id, b.instance_id), b.created_at
    FROM bookmark b TABLESAMPLE SYSTEM (
        (SELECT least(100, 30000.0 / greatest(pg_relation_size('bookmark'::regclass) / current_setting('block_size')::bigint, 1))))
    WHERE b.created_at < now() - $1::bigint * interval '1 microsecond'
      AND NOT b.publishable AND b.name IN ('Elsa.Delay', 'Elsa.Timer', 'Elsa.Cron', 'Elsa.StartAt')
      AND NOT EXISTS (SELECT 1 FROM timer t WHERE t.instance_id = b.instance_id AND t.id = b.id AND t.tenant_id = b.tenant_id)
      -- Dead-lettered; or replayed, as a resume.
      AND NOT EXISTS (SELECT 1 FROM dead_letter l WHERE l.instance_id = b.instance_id AND l.tenant_id = b.tenant_id)
      AND NOT EXISTS (SELECT 1 FROM work w WHERE w.instance_id = b.instance_id AND w.tenant_id = b.tenant_id)
) o
LIMIT 10
