-- purpose: name a role; fails while the lock table has no room and the role is not cached
-- caller:  lock::provider::postgres::session
-- index:   pg_authid_oid_index
-- locks:   none on tables
SELECT pg_get_userbyid($1::bigint::oid)::text AS role
