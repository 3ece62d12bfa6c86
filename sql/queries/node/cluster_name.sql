-- purpose: a name for the cluster that no other schema and no other database has
-- caller:  store::node
-- index:   none (one row)
-- locks:   none
SELECT right(channel_name('cluster'), 32) AS name
