-- purpose: read the bytes of WAL that the server has written, the flushes (counted with up to a second's delay; null
--          from version 18 on) and the process of this session
-- caller:  bench::queries, from `mainspring bench workflows`
-- index:   none
-- locks:   none
SELECT pg_backend_pid() AS backend, pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint AS wal_bytes,
       (to_json(w)->>'wal_sync')::bigint AS wal_flushes
FROM pg_stat_wal w
