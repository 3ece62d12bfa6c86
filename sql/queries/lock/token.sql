-- purpose: draw a fencing token: a transaction id is logged, and grows across restarts of the server
-- caller:  lock::provider::postgres::session
-- index:   none
-- locks:   none
SELECT pg_current_xact_id()::text::bigint AS token
