-- purpose: declare an incarnation dead: its fence rows go, which waits for its commit in flight and shuts out every later one
-- caller:  store::depart
-- index:   fence_pkey, node_pkey
-- locks:   fence, then node, under lock_timeout
WITH fences AS (
    DELETE FROM fence WHERE incarnation = $1
), gone AS (
    DELETE FROM node WHERE incarnation = $1 RETURNING node_id, postmaster_started_at
)
INSERT INTO departed (incarnation, node_id, crashed)
SELECT $1, coalesce(g.node_id, $2), $3 AND coalesce(g.postmaster_started_at = pg_postmaster_start_time(), false)
FROM (SELECT 1) one LEFT JOIN gone g ON true
ON CONFLICT DO NOTHING
