-- purpose: mark one step after a publish as done, unless it is done already or the definition was published again
-- caller:  store::activation, in the transaction that holds the definition's lock
-- index:   definition_pkey
-- locks:   definition
UPDATE definition SET seeding = CASE seeding WHEN 2 /* seed */ THEN 1 /* prune */ ELSE 0 /* done */ END
WHERE tenant_id = $1 AND version_id = $2 AND is_published AND seeding = $3
