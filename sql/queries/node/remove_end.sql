-- purpose: forget a departed incarnation of which nothing is left
-- caller:  store::node::removal
-- index:   removed_node_pkey
-- locks:   departed, then old deaths
WITH old AS (
    DELETE FROM crash WHERE crashed_at < clock_timestamp() - interval '1 hour'
)
DELETE FROM removed_node WHERE incarnation = $1
