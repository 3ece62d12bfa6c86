-- purpose: tell which migrations were applied, and what they were then
-- caller:  db::migrate
-- index:   refinery_schema_history_pkey
-- locks:   none
SELECT version, coalesce(checksum, '') FROM refinery_schema_history ORDER BY version
