-- purpose: tell whether the schema has names of channels that are keyed; hints can be used without any schema
-- caller:  db::channel
-- index:   none
-- locks:   none
SELECT to_regprocedure('channel_name(text)') IS NOT NULL AS is_keyed
