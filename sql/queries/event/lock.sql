-- purpose: wait for the right to publish one stimulus: nobody may begin to wait for it meanwhile
-- caller:  store::event
-- index:   none
-- locks:   advisory (schema key, stimulus key) exclusive, under lock_timeout
SELECT pg_advisory_xact_lock($1::integer, $2::integer)
