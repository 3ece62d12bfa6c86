-- purpose: record the removal of a node before its fence rows are deleted: a commit that does not end may hold them
-- caller:  store::node::removal
-- index:   removed_node_pkey, work_claimed, timer_claimed
-- locks:   none
INSERT INTO removed_node (incarnation, node_id, crashed, had_isolated)
SELECT $1, $2, $3 AND coalesce((SELECT NOT n.hung AND n.postmaster_started_at = pg_postmaster_start_time() FROM node n
                         WHERE n.incarnation = $1), false),
       EXISTS (SELECT 1 FROM work w WHERE w.claimed_by = $1 AND w.crashes >= 2)
           OR EXISTS (SELECT 1 FROM timer t WHERE t.claimed_by = $1 AND t.crashes >= 2)
ON CONFLICT DO NOTHING
