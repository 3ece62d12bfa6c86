-- purpose: list a page of definitions, with how many there are in all
-- caller:  store::definition
-- index:   definition_pkey
-- locks:   none
WITH hit AS (
    SELECT d.version_id, d.definition_id, d.version, d.name, d.description, d.is_latest, d.is_published,
        d.is_readonly, d.created_at
    FROM definition d
    WHERE d.tenant_id = $1
  AND (NOT $2::boolean OR d.is_published)
  AND (NOT $3::boolean OR d.is_latest)
  AND (NOT $4::boolean OR d.is_latest OR d.is_published)
  AND (NOT $5::boolean OR NOT d.is_published)
  AND ($6::integer IS NULL OR d.version = $6)
  AND (cardinality($7::text[]) = 0 OR d.definition_id = ANY ($7))
  AND ($8::text IS NULL OR strpos(lower(coalesce(d.name, '')), lower($8)) > 0
       OR strpos(lower(coalesce(d.description, '')), lower($8)) > 0
       OR strpos(lower(d.definition_id), lower($8)) > 0 OR strpos(lower(d.version_id), lower($8)) > 0)
), page AS (
    SELECT * FROM hit h ORDER BY h.name NULLS LAST, h.definition_id, h.version DESC LIMIT $9 OFFSET $10
)
SELECT (SELECT count(*) FROM hit) AS total, p.* FROM (SELECT 1) one LEFT JOIN page p ON true
