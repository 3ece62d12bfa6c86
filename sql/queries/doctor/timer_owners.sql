-- purpose: timers, in a sample of 300 pages, without a bookmark
-- caller:  store::doctor::work
-- index:   bookmark_pkey
-- locks:   none
SELECT format('timer %s of instance %s has no bookmark', t.id, t.instance_id) AS what, t.due AS since, NULL::text AS remedy
FROM timer t TABLESAMPLE SYSTEM (
        (SELECT least(100, 30000.0 / greatest(pg_relation_size('timer'::regclass) / current_setting('block_size')::bigint, 1))))
WHERE NOT EXISTS (SELECT 1 FROM bookmark b WHERE b.instance_id = t.instance_id AND b.id = t.id AND b.tenant_id = t.tenant_id)
LIMIT 10
