-- purpose: serialize saves and publishes of a definition
-- caller:  store::definition
-- index:   none
-- locks:   advisory (schema key, hash of the definition id), under lock_timeout
SELECT pg_advisory_xact_lock($1::integer, hashtext($2 || '/' || $3))
