-- purpose: show that the session answers and that the server's lock table has room: the lock is free again when the
--          statement ends, and no key of a name or a node is negative and as small as a process id
-- caller:  lock::provider::postgres::session
-- index:   none
-- locks:   none on tables
SELECT pg_try_advisory_xact_lock(-pg_backend_pid()::bigint)
