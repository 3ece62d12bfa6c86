-- purpose: delete the node and its fence rows; waits for its commit in flight, and makes every later one fail
-- caller:  store::node::removal
-- index:   fence_pkey, node_pkey, crash_pkey, work_claimed, timer_claimed
-- locks:   fence, then node, then crash, under lock_timeout
WITH fences AS (
    DELETE FROM fence WHERE incarnation = $1
), removed AS (
    DELETE FROM node WHERE incarnation = $1 RETURNING node_id, hung, postmaster_started_at
), crashes AS (
    INSERT INTO crash (incarnation)
    SELECT $1 FROM removed g WHERE $3 AND NOT g.hung AND g.postmaster_started_at = pg_postmaster_start_time()
    ON CONFLICT DO NOTHING
)
INSERT INTO removed_node (incarnation, node_id, crashed, had_isolated)
SELECT $1, coalesce(g.node_id, $2),
       $3 AND coalesce(NOT g.hung AND g.postmaster_started_at = pg_postmaster_start_time(), false),
       EXISTS (SELECT 1 FROM work w WHERE w.claimed_by = $1 AND w.crashes >= 2)
           OR EXISTS (SELECT 1 FROM timer t WHERE t.claimed_by = $1 AND t.crashes >= 2)
FROM (SELECT 1) one LEFT JOIN removed g ON true
ON CONFLICT DO NOTHING
