-- purpose: draw the next incarnation
-- caller:  store::node
-- index:   none
-- locks:   none
SELECT nextval('incarnation') AS incarnation
