-- purpose: list the instances of a bulk operation: by ids, definitions, a version, or several of these; with starts
--          that have not run yet. While few instances run, unfinished ones are found by the rows that wait for them
-- caller:  store::instance::delete
-- index:   instance_pkey, instance_by_version, definition_pkey, bookmark_pkey
-- locks:   none
SELECT u.id
FROM (SELECT i.id, i.definition_id, i.version_id, i.definition_version, i.status
      FROM
--[few_running
      (SELECT b.instance_id FROM bookmark b UNION SELECT w.instance_id FROM work w UNION SELECT t.instance_id FROM timer t
       UNION SELECT d.instance_id FROM dead_letter d) r JOIN
--]
      instance i
--[few_running
      ON i.id = r.instance_id
--]
      WHERE i.tenant_id = $1 AND ($2::text[] IS NULL OR i.id = ANY ($2))
--[all
        AND ($2 IS NOT NULL OR i.version_id = ANY (ARRAY(
            SELECT d.version_id FROM definition d
            WHERE d.tenant_id = $1 AND ($3::text[] IS NULL OR d.definition_id = ANY ($3)) AND ($4::text IS NULL OR d.version_id = $4)
              AND ($5::integer IS NULL OR d.version = $5))))
--]
      UNION ALL
      SELECT w.instance_id, w.definition_id, w.version_id, w.definition_version, 0 /* running */
      FROM work w WHERE w.tenant_id = $1 AND w.kind = 0 /* start */ AND w.definition_id IS NOT NULL
        AND ($2::text[] IS NULL OR w.instance_id = ANY ($2))) u
WHERE ($3::text[] IS NULL OR u.definition_id = ANY ($3))
  AND ($4::text IS NULL OR u.version_id = $4)
  AND ($5::integer IS NULL OR u.definition_version = $5)
  AND (u.status = 0 /* running */ OR NOT $6::boolean)
LIMIT $7
