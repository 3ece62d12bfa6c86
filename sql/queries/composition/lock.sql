-- purpose: serialize what decides or deletes the versions that references mean; before the locks of definitions
-- caller:  store::definition::composition
-- index:   none
-- locks:   advisory (schema key, hash of the tenant with a prefix that no definition has), under lock_timeout
SELECT pg_advisory_xact_lock($1::integer, hashtext('composition//' || $2::text))
