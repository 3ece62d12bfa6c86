-- purpose: set the activity types of a version, once: they never change
-- caller:  store::activity_type
-- index:   definition_pkey
-- locks:   definition
UPDATE definition SET activity_types = $3
WHERE tenant_id = $1 AND version_id = $2 AND activity_types IS NULL
