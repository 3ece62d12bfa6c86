-- purpose: let one save or publish of a definition happen at a time
-- caller:  store::definition
-- index:   none
-- locks:   advisory (schema key, hash of the definition id), under lock_timeout
SELECT pg_advisory_xact_lock($1::integer, hashtext($2 || '/' || $3))
