-- purpose: how many rows may belong to running instances, up to a bound for each table, and whether name and correlation id
--          have trigram indexes
-- caller:  store::instance::list
-- index:   bookmark_pkey, work_pkey, timer_pkey, dead_letter_pkey
-- locks:   none
SELECT (SELECT count(*) FROM (SELECT FROM bookmark b WHERE b.instance_id > '' LIMIT $1::bigint) n)
       + (SELECT count(*) FROM (SELECT FROM work w WHERE w.id > 0 LIMIT $1) n)
       + (SELECT count(*) FROM (SELECT FROM timer t WHERE t.instance_id > '' LIMIT $1) n)
       + (SELECT count(*) FROM (SELECT FROM dead_letter d WHERE d.id > 0 LIMIT $1) n) AS rows,
       EXISTS (SELECT 1 FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid JOIN pg_am a ON a.oid = c.relam
               WHERE c.oid = to_regclass('instance_correlation') AND a.amname = 'gin') AS has_trigrams
