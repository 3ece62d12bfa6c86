-- purpose: read how many locks the server's table is made for, and the process of this session
-- caller:  lock::provider::postgres::session
-- index:   none
-- locks:   none
SELECT current_setting('max_locks_per_transaction')::bigint
       * (current_setting('max_connections')::bigint + current_setting('max_prepared_transactions')::bigint) AS capacity,
       pg_backend_pid() AS process_id
