-- purpose: find the departures that somebody began and did not end; whoever began one may have died of it
-- caller:  store::node::removal
-- index:   removed_node_pkey
-- locks:   none
SELECT d.incarnation FROM removed_node d ORDER BY d.incarnation
