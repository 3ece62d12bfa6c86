-- purpose: read the process of the session, whether the settings of its start have reached it, and the server's
--          version
-- caller:  db::direct
-- index:   none
-- locks:   none
SELECT pg_backend_pid() AS session, current_setting('search_path') AS search_path,
       current_setting('server_version_num') AS version_num, current_setting('server_version') AS version,
       current_setting('fsync') AS fsync
