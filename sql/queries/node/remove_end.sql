-- purpose: delete the record of a removal that is complete, and crashes older than an hour
-- caller:  store::node::removal
-- index:   removed_node_pkey
-- locks:   removed_node, then old rows of crash
WITH old AS (
    DELETE FROM crash WHERE crashed_at < clock_timestamp() - interval '1 hour'
)
DELETE FROM removed_node WHERE incarnation = $1
