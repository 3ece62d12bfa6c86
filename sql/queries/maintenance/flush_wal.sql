-- purpose: write something to the log whose commit waits for its flush, and so for that of all before it
-- caller:  store::maintenance
-- index:   none
-- locks:   none
SELECT pg_logical_emit_message(true, 'mainspring', '')
