-- purpose: lock one stimulus key: no bookmark that waits for it may be created meanwhile
-- caller:  store::event
-- index:   none
-- locks:   advisory (schema key, stimulus key) exclusive, under lock_timeout
SELECT pg_advisory_xact_lock($1::integer, $2::integer)
