-- purpose: the ids of the versions that a filter of instances means: by definitions, versions and numbers, and if $5 only those
--          of the system; all if none is given
-- caller:  store::instance::list
-- index:   definition_pkey
-- locks:   none
SELECT d.version_id
FROM definition d
WHERE d.tenant_id = $1
  AND ($2::text[] IS NULL OR d.definition_id = ANY ($2))
  AND ($3::text[] IS NULL OR d.version_id = ANY ($3))
  AND ($4::integer IS NULL OR d.version = $4)
  AND (NOT $5::boolean OR d.is_system)
ORDER BY d.version_id
