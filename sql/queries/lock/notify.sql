-- purpose: notify other nodes of keys that are waited for or were released, in a transaction that writes nothing
-- caller:  lock::provider::postgres::session
-- index:   none
-- locks:   the global lock of NOTIFY, until the end of this statement
SELECT pg_notify($1, payload) FROM unnest($2::text[]) payload
