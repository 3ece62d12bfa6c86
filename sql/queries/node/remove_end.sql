-- purpose: forget a departed incarnation of which nothing is left
-- caller:  store::depart
-- index:   departed_pkey
-- locks:   departed, then old deaths
WITH old AS (
    DELETE FROM death WHERE died_at < clock_timestamp() - interval '1 hour'
)
DELETE FROM departed WHERE incarnation = $1
