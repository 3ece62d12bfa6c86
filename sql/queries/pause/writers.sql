-- purpose: list the transactions that hold a table locked into which requests are accepted or of which rows are
--          claimed; with $1, which of those still do
-- caller:  store::pause, after the pause is committed
-- index:   none
-- locks:   none. A statement takes these locks before its snapshot, so a transaction that is not in the list reads the
--          pause
SELECT coalesce(array_agg(DISTINCT l.virtualtransaction), '{}') AS writers
FROM pg_locks l
WHERE l.locktype = 'relation' AND l.granted AND l.mode IN ('RowShareLock', 'RowExclusiveLock')
  AND l.relation IN ('work'::regclass, 'fan_out'::regclass, 'inbox_match'::regclass)
  AND l.database = (SELECT b.oid FROM pg_database b WHERE b.datname = current_database())
  AND ($1::text[] IS NULL OR l.virtualtransaction = ANY ($1))
