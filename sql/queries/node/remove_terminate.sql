-- purpose: end every session of a departed or expired incarnation
-- caller:  store::depart
-- index:   none
-- locks:   none
SELECT terminate_incarnation($1)
