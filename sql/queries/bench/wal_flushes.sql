-- purpose: read the flushes of the WAL on PostgreSQL 18 and newer, where pg_stat_wal does not have them
-- caller:  bench::queries, from `mainspring bench workflows`
-- index:   none
-- locks:   none
SELECT coalesce(sum(fsyncs), 0)::bigint AS wal_flushes FROM pg_stat_io WHERE object = 'wal' AND context = 'normal'
