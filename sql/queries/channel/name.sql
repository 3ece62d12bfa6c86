-- purpose: compute the name of a channel; needs the right to read the secret of the schema
-- caller:  db::channel
-- index:   none
-- locks:   none
SELECT channel_name($1) AS name
