-- purpose: terminate every session of a removed or expired incarnation
-- caller:  store::node::removal
-- index:   none
-- locks:   none
SELECT terminate_incarnation($1) AS ended
