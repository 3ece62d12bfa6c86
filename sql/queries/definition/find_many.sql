-- purpose: read versions by their own ids, up to so many bytes of bodies
-- caller:  store::definition::read
-- index:   definition_pkey
-- locks:   none
SELECT f.version_id, f.definition_id, f.version, f.name, f.description, f.is_latest, f.is_published, f.is_readonly,
    f.is_system, f.created_at, CASE WHEN f.bytes <= $3::bigint THEN f.body END AS body
FROM (SELECT d.*, sum(octet_length(d.body::text)) OVER (ORDER BY d.version_id) AS bytes
      FROM definition d
      WHERE d.tenant_id = $1 AND d.version_id = ANY ($2::text[])) f
ORDER BY array_position($2, f.version_id)
