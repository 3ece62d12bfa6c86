-- purpose: forget a departed incarnation of which nothing is left
-- caller:  store::depart
-- index:   departed_pkey
-- locks:   departed
DELETE FROM departed WHERE incarnation = $1
