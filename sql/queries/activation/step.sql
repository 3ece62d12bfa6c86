-- purpose: one of the steps that are left after a publish is done, if nobody else did it or published anew
-- caller:  store::activation, in the transaction that holds the definition's lock
-- index:   definition_pkey
-- locks:   definition
UPDATE definition SET seeding = seeding - 1
WHERE tenant_id = $1 AND version_id = $2 AND is_published AND seeding = $3
