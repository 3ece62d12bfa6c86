-- purpose: list the routes of all published endpoints: what a node knows beside them is gone
-- caller:  store::route::lookup, where their number is not the one that the node knows
-- index:   trigger_route
-- locks:   none
SELECT t.definition_id, t.hash FROM trigger t WHERE t.name = 'Elsa.HttpEndpoint' AND t.tenant_id = $1
