-- purpose: tell other nodes which keys are waited for, or were given back; in a transaction that writes nothing
-- caller:  lock::postgres::session
-- index:   none
-- locks:   the server's lock on notifications, until the end of this statement
SELECT pg_notify($1, payload) FROM unnest($2::text[]) payload
