-- purpose: tell what a channel is called, which only those can tell who may read the schema's secret
-- caller:  db::channel
-- index:   none
-- locks:   none
SELECT channel_name($1) AS name
