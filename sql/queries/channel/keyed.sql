-- purpose: read whether the schema has keyed channel names; wake notifications can be used without a schema
-- caller:  db::channel
-- index:   none
-- locks:   none
SELECT to_regprocedure('channel_name(text)') IS NOT NULL AS is_keyed
