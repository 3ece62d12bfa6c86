-- purpose: tell which of the tables that all work goes through are worth a vacuum: little in them is alive, as far as is
--          known ($1 rows), and they are small ($2 bytes), as what is dead and cannot go yet for an old snapshot is walked over
--          in vain. The others are left to the server's own
-- caller:  store::maintenance
-- index:   none: lookups by name in the catalog
-- locks:   none
SELECT (SELECT c.reltuples < $1 AND pg_relation_size(c.oid) < $2 FROM pg_class c WHERE c.oid = 'work'::regclass) AS work,
       (SELECT c.reltuples < $1 AND pg_relation_size(c.oid) < $2 FROM pg_class c WHERE c.oid = 'timer'::regclass) AS timer
