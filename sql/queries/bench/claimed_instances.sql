-- purpose: list the instances whose work a node has claimed
-- caller:  bench::queries, from `mainspring bench failover`
-- index:   work_claimed
-- locks:   none
SELECT DISTINCT w.instance_id FROM node n JOIN work w ON w.claimed_by = n.incarnation
WHERE n.node_id = $1
