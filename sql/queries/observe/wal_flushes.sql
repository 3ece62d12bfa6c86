-- purpose: tell how often the WAL was flushed so far, where pg_stat_wal does not know it: PostgreSQL 18 and newer
-- caller:  store::observe, from `mainspring bench workflows`
-- index:   none
-- locks:   none
SELECT coalesce(sum(fsyncs), 0)::bigint AS wal_flushes FROM pg_stat_io WHERE object = 'wal' AND context = 'normal'
