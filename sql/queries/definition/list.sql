-- purpose: list a page of versions without their bodies, and how many there are in all. One of the parts `latest` to
--          `draft` selects versions, and one of the last ones is the order. Deleted versions only by their own ids
-- caller:  store::definition::list
-- index:   definition_pkey, definition_version, definition_latest, definition_published
-- locks:   none
WITH hit AS (
    SELECT d.version_id, d.definition_id, d.version, d.name, d.description, d.is_latest, d.is_published,
        d.is_readonly, d.is_system, d.created_at, d.tool_version
    FROM definition d
    WHERE d.tenant_id = $1
--[latest
      AND d.is_latest
--]
--[published
      AND d.is_published
--]
--[latest or published
      AND (d.is_latest OR d.is_published)
--]
--[latest and published
      AND d.is_latest AND d.is_published
--]
--[draft
      AND NOT d.is_published
--]
      AND (d.deleted_at IS NULL OR cardinality($2::text[]) > 0)
      AND (cardinality($2) = 0 OR d.version_id = ANY ($2))
      AND (cardinality($3::text[]) = 0 OR d.definition_id = ANY ($3))
      AND ($4::integer IS NULL OR d.version = $4)
      AND ($5::boolean IS NULL OR d.is_system = $5)
      AND ($6::text IS NULL OR strpos(lower(coalesce(d.name, '')), lower($6)) > 0
           OR strpos(lower(coalesce(d.description, '')), lower($6)) > 0
           OR strpos(lower(d.definition_id COLLATE "default"), lower($6)) > 0
           OR strpos(lower(d.version_id COLLATE "default"), lower($6)) > 0)
), page AS (
    SELECT * FROM hit h
--[name ascending
    ORDER BY lower(h.name) NULLS LAST, h.name, h.definition_id, h.version DESC
--]
--[name descending
    ORDER BY lower(h.name) DESC NULLS LAST, h.name DESC, h.definition_id, h.version DESC
--]
--[created ascending
    ORDER BY h.created_at, h.definition_id, h.version
--]
--[created descending
    ORDER BY h.created_at DESC, h.definition_id, h.version DESC
--]
--[version ascending
    ORDER BY h.version, h.created_at, h.definition_id
--]
--[version descending
    ORDER BY h.version DESC, h.created_at DESC, h.definition_id
--]
    LIMIT $7 OFFSET $8
)
SELECT (SELECT count(*) FROM hit) AS total, p.* FROM (SELECT 1) one LEFT JOIN page p ON true
