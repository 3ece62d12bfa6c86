-- purpose: read the starts that were accepted before a bulk action and have not run yet, page by page: the definitions of
--          rows that a filter may mean
-- caller:  store::bulk_action
-- index:   work_pkey
-- locks:   none
SELECT w.id, w.instance_id
FROM work w
WHERE w.tenant_id = $1 AND w.id > $2 AND w.kind = 0 /* start */ AND w.definition_id IS NOT NULL AND w.created_at <= $3
  AND ($4::text[] IS NULL OR w.version_id = ANY ($4))
  AND ($5::text[] IS NULL OR w.instance_id = ANY ($5))
  AND ($6::text[] IS NULL OR w.body->>'correlationId' = ANY ($6))
  AND ($7::text IS NULL OR w.body->>'name' = $7)
  AND ($8::timestamptz IS NULL OR w.created_at >= $8)
  AND ($9::timestamptz IS NULL OR w.created_at <= $9)
  AND ($11::text[] IS NULL OR w.body->'parent'->>'instanceId' = ANY ($11))
ORDER BY w.id
LIMIT $10
