-- purpose: read which of the two hot tables are worth a vacuum: few live rows (under $1, as far as is known) and
--          small (under $2 bytes). Larger ones are left to autovacuum
-- caller:  store::maintenance
-- index:   none: lookups by name in the catalog
-- locks:   none
SELECT (SELECT c.reltuples < $1 AND pg_relation_size(c.oid) < $2 FROM pg_class c WHERE c.oid = 'work'::regclass) AS work,
       (SELECT c.reltuples < $1 AND pg_relation_size(c.oid) < $2 FROM pg_class c WHERE c.oid = 'timer'::regclass) AS timer
