-- purpose: who keeps dead rows from being removed: open transactions, replication slots, prepared transactions, standbys
-- caller:  store::doctor::server
-- index:   none: views of the server's memory and the catalog
-- locks:   none
-- $1: microseconds; what is younger is not listed.
SELECT h.what, h.since, h.remedy
FROM (
    SELECT format('session %s of role %s (%s) has had a transaction open, and is %s', a.pid, a.usename,
                  coalesce(nullif(a.application_name, ''), 'no name'), coalesce(a.state, 'in an unknown state')) AS what,
           a.xact_start AS since,
           format('psql "$MAINSPRING_DATABASE_URL" -c "SELECT pg_terminate_backend(%s)"', a.pid) AS remedy
    FROM pg_stat_activity a
    -- The snapshot of a vacuum holds nothing back.
    WHERE a.backend_type = 'client backend' AND a.pid <> pg_backend_pid() AND coalesce(a.query, '') NOT ILIKE 'VACUUM%'
      AND a.xact_start < clock_timestamp() - $1::bigint * interval '1 microsecond'
      AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL OR a.state LIKE 'idle in transaction%')
    UNION ALL
    SELECT format('the replication slot %s is inactive, and keeps %s and %s of WAL', s.slot_name,
                  CASE WHEN s.xmin IS NOT NULL THEN 'dead rows' WHEN s.catalog_xmin IS NOT NULL THEN 'dead rows of the catalog'
                       ELSE 'no rows' END,
                  coalesce(pg_size_pretty(pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn)), 'nothing')),
           -- PostgreSQL 17 has the time.
           (to_jsonb(s)->>'inactive_since')::timestamptz,
           format('psql "$MAINSPRING_DATABASE_URL" -c "SELECT pg_drop_replication_slot(%L)"', s.slot_name)
    FROM pg_replication_slots s
    WHERE NOT s.active AND num_nonnulls(s.xmin, s.catalog_xmin, s.restart_lsn) > 0
      AND coalesce((to_jsonb(s)->>'inactive_since')::timestamptz < clock_timestamp() - $1::bigint * interval '1 microsecond', true)
    UNION ALL
    SELECT format('the prepared transaction %s of role %s is neither committed nor rolled back', p.gid, p.owner), p.prepared,
           format('psql "$MAINSPRING_DATABASE_URL" -c "ROLLBACK PREPARED %L"', p.gid)
    FROM pg_prepared_xacts p
    WHERE p.database = current_database() AND p.prepared < clock_timestamp() - $1::bigint * interval '1 microsecond'
    UNION ALL
    SELECT format('the standby %s keeps dead rows of %s transactions, by its hot_standby_feedback', r.application_name,
                  age(r.backend_xmin)), NULL, 'end the oldest query on that standby'
    FROM pg_stat_replication r
    WHERE age(r.backend_xmin) > 10000000
) h
ORDER BY h.since NULLS LAST
LIMIT 20
