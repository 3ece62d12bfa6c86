-- purpose: read whether the schema was ever migrated
-- caller:  db::migrate
-- index:   none
-- locks:   none
SELECT to_regclass(quote_ident(current_schema()) || '.refinery_schema_history') IS NOT NULL AS exists
