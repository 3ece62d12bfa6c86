-- purpose: for a child that is to run in the burst of its parent: the published version of its definition, and the instance, if an
--          earlier try of the burst has made it
-- caller:  store::instance
-- index:   definition_published, instance_pkey
-- locks:   none
SELECT d.version_id, d.version, d.activation_strategy = 0 /* always */ AND d.seeding = 0 /* done */ AS starts_always, i.state,
    i.instance_version
FROM (SELECT 1) one
LEFT JOIN LATERAL (
    SELECT v.version_id, v.version, v.activation_strategy, v.seeding FROM definition v
    WHERE v.tenant_id = $1 AND v.definition_id = $2 AND v.is_published LIMIT 1) d ON true
LEFT JOIN LATERAL (
    SELECT whole_state(x) AS state, x.version AS instance_version FROM instance x WHERE x.id = $3 AND x.tenant_id = $1 LIMIT 1) i ON true
