-- purpose: read which node holds the claim on the timer of an instance
-- caller:  store::node, from `mainspring demo`
-- index:   timer_pkey
-- locks:   none
SELECT n.node_id FROM timer t JOIN node n ON n.incarnation = t.claimed_by
WHERE t.tenant_id = $1 AND t.instance_id = $2
