-- purpose: read whether the schema exists
-- caller:  db::migrate
-- index:   none
-- locks:   none
SELECT to_regnamespace($1) IS NOT NULL AS exists
