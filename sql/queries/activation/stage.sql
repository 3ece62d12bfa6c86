-- purpose: list what is left to do after publishes that changed an activation strategy, of one definition or of all
-- caller:  store::activation
-- index:   definition_seeding
-- locks:   none
SELECT d.tenant_id, d.definition_id, d.version_id, d.activation_strategy, d.seeding
FROM definition d
WHERE d.is_published AND d.seeding > 0 /* done */
  AND ($1::text IS NULL OR d.tenant_id = $1) AND ($2::text IS NULL OR d.definition_id = $2)
ORDER BY d.tenant_id, d.definition_id
