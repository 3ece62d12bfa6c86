-- purpose: tell which session answers, and whether what was asked for at its start has reached it
-- caller:  db::direct
-- index:   none
-- locks:   none
SELECT pg_backend_pid(), current_setting('search_path')
