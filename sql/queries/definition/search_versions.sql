-- purpose: the ids of versions whose own id or whose definition's id contains a text, at most $3. Both parts read an index only
-- caller:  store::instance::list
-- index:   definition_pkey
-- locks:   none
SELECT d.version_id
FROM definition d
WHERE d.tenant_id = $1 AND strpos(lower(d.version_id COLLATE "default"), lower($2)) > 0
UNION
SELECT d.version_id
FROM (SELECT DISTINCT x.definition_id FROM definition x
      WHERE x.tenant_id = $1 AND strpos(lower(x.definition_id COLLATE "default"), lower($2)) > 0) f
JOIN definition d ON d.tenant_id = $1 AND d.definition_id = f.definition_id
LIMIT $3::bigint
