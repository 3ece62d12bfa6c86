-- purpose: write to the WAL; the commit waits for its flush, and so for that of all commits before it
-- caller:  store::maintenance
-- index:   none
-- locks:   none
SELECT pg_logical_emit_message(true, 'mainspring', '')
