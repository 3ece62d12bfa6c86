-- purpose: list a page of instances, newest first, with how many there are in all
-- caller:  store::instance
-- index:   instance_by_time, instance_by_definition
-- locks:   none
WITH hit AS (
    SELECT i.id, i.definition_id, i.version_id, i.definition_version, i.status, i.sub_status, i.correlation_id,
        i.name, i.incident_count, i.created_at, i.updated_at, i.finished_at
    FROM instance i
    WHERE i.tenant_id = $1
      AND (cardinality($2::text[]) = 0 OR i.definition_id = ANY ($2))
      AND ($3::text IS NULL OR i.correlation_id = $3)
      AND ($4::text IS NULL OR i.name = $4)
      AND ($5::integer IS NULL OR i.definition_version = $5)
      AND ($6::boolean IS NULL OR (i.incident_count > 0) = $6)
      AND (cardinality($7::smallint[]) = 0 OR i.status = ANY ($7))
      AND (cardinality($8::smallint[]) = 0 OR i.sub_status = ANY ($8))
      AND ($9::text IS NULL OR strpos(lower(i.id), lower($9)) > 0
           OR strpos(lower(coalesce(i.name, '')), lower($9)) > 0
           OR strpos(lower(coalesce(i.correlation_id, '')), lower($9)) > 0)
), page AS (
    SELECT * FROM hit h ORDER BY h.created_at DESC, h.id LIMIT $10 OFFSET $11
)
SELECT (SELECT count(*) FROM hit) AS total, p.*
FROM (SELECT 1) one LEFT JOIN page p ON true
ORDER BY p.created_at DESC, p.id
