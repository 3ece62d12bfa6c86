-- purpose: find the departures that somebody began and did not end; whoever began one may have died of it
-- caller:  store::depart
-- index:   departed_pkey
-- locks:   none
SELECT d.incarnation FROM departed d ORDER BY d.incarnation
