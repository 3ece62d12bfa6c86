-- purpose: the transactions that have locked the table of work to write it; with $1, which of these are left
-- caller:  store::activation
-- index:   none
-- locks:   none; whoever accepts a start or commits a burst has that lock before his statement takes its snapshot, so that
--          whoever is not among them sees all that was committed before this look
SELECT coalesce(array_agg(DISTINCT l.virtualtransaction), '{}') AS writers
FROM pg_locks l
WHERE l.locktype = 'relation' AND l.relation = 'work'::regclass AND l.mode = 'RowExclusiveLock' AND l.granted
  AND l.database = (SELECT b.oid FROM pg_database b WHERE b.datname = current_database())
  AND ($1::text[] IS NULL OR l.virtualtransaction = ANY ($1))
