-- purpose: tell the newest migration that was applied
-- caller:  db::migrate
-- index:   refinery_schema_history_pkey
-- locks:   none
SELECT coalesce(max(version), 0)::integer FROM refinery_schema_history
