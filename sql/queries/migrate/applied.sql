-- purpose: tell which migrations were applied, and what they were then
-- caller:  db::migrate
-- index:   refinery_schema_history_pkey
-- locks:   none
SELECT version, name, coalesce(checksum, '') AS checksum FROM refinery_schema_history ORDER BY version
