-- purpose: the other half
-- caller:  lock::postgres::plain
-- index:   none
-- locks:   none
SELECT pg_advisory_unlock($1)
