-- purpose: tell which of the tables that all work goes through hold little that is alive, as far as is known ($1 rows):
--          there a vacuum is short, and the others are left to the server's own
-- caller:  store::housekeeping
-- index:   none: two lookups by name in the catalog
-- locks:   none
SELECT (SELECT c.reltuples < $1 FROM pg_class c WHERE c.oid = 'work'::regclass),
       (SELECT c.reltuples < $1 FROM pg_class c WHERE c.oid = 'timer'::regclass)
