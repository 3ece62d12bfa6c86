-- purpose: tell whether the schema is there
-- caller:  db::migrate
-- index:   none
-- locks:   none
SELECT to_regnamespace($1) IS NOT NULL AS exists
