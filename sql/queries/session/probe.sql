-- purpose: tell which session answers, whether what was asked for at its start has reached it, and what server it is
-- caller:  db::direct
-- index:   none
-- locks:   none
SELECT pg_backend_pid() AS session, current_setting('search_path') AS search_path,
       current_setting('server_version_num') AS version_num, current_setting('server_version') AS version,
       current_setting('fsync') AS fsync
