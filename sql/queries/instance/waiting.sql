-- purpose: how many rows may belong to running instances, up to a bound for each table, and whether name and correlation id
--          have trigram indexes
-- caller:  store::instance::list
-- index:   bookmark_pkey, work_pkey, timer_pkey, dead_letter_pkey
-- locks:   none
SELECT (SELECT count(*) FROM (SELECT FROM bookmark b WHERE b.instance_id > '' LIMIT $1::bigint) n)
       + (SELECT count(*) FROM (SELECT FROM work w WHERE w.id > 0 LIMIT $1) n)
       + (SELECT count(*) FROM (SELECT FROM timer t WHERE t.instance_id > '' LIMIT $1) n)
       + (SELECT count(*) FROM (SELECT FROM dead_letter d WHERE d.id > 0 LIMIT $1) n) AS rows,
       -- Made by an operator, both or none; one whose build failed or goes on is not valid.
       (SELECT count(*) = 2 FROM pg_index x
        WHERE x.indisvalid AND x.indexrelid IN (to_regclass('instance_name_trigrams'), to_regclass('instance_correlation_trigrams')))
           AS has_trigrams
