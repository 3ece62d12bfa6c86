-- purpose: list the migrations that were applied, with name and checksum
-- caller:  db::migrate
-- index:   refinery_schema_history_pkey
-- locks:   none
SELECT version, name, coalesce(checksum, '') AS checksum FROM refinery_schema_history ORDER BY version
