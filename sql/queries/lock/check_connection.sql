-- purpose: have the server check this session's connection twice a second while a statement runs, where it can. A wait
--          that its timeout ends, again and again, would else never answer the barriers of the server: DROP DATABASE of any
--          database waits for them, and the error of the timeout comes before them
-- caller:  store::lock
-- index:   none
-- locks:   none
DO $$ BEGIN
    PERFORM set_config('client_connection_check_interval', '500ms', false);
EXCEPTION WHEN OTHERS THEN
    -- The server's system cannot do it.
    NULL;
END $$
