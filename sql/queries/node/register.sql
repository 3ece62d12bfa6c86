-- purpose: register an incarnation with the fence rows of its commit writers
-- caller:  store::node
-- index:   node_pkey, fence_pkey
-- locks:   node, fence
WITH fenced AS (
    INSERT INTO fence (incarnation, writer) SELECT $1, w FROM unnest($4::smallint[]) w
)
INSERT INTO node (incarnation, node_id, tolerance) VALUES ($1, $2, $3::bigint * interval '1 microsecond')
