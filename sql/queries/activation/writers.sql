-- purpose: list the transactions that hold the table of work locked for writing; with $1, which of those still do
-- caller:  store::activation
-- index:   none
-- locks:   none. A statement that accepts a start or commits a burst takes that lock before its snapshot, so a transaction
--          that is not in the list sees all that was committed before
SELECT coalesce(array_agg(DISTINCT l.virtualtransaction), '{}') AS writers
FROM pg_locks l
WHERE l.locktype = 'relation' AND l.relation = 'work'::regclass AND l.mode = 'RowExclusiveLock' AND l.granted
  AND l.database = (SELECT b.oid FROM pg_database b WHERE b.datname = current_database())
  AND ($1::text[] IS NULL OR l.virtualtransaction = ANY ($1))
