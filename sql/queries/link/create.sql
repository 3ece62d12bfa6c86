-- purpose: make a resume link for a bookmark that waits now, which expires after $6 microseconds
-- caller:  store::link
-- index:   resume_link_pkey, instance_pkey, bookmark_pkey
-- locks:   instance (key share), so that a delete of it comes after, or before; then resume_link by id
INSERT INTO resume_link (id, tenant_id, instance_id, generation, bookmark_id, uses, uses_left, expires_at)
SELECT $1, $2, $3, $4, b.id, $7, $7, clock_timestamp() + $6::bigint * interval '1 microsecond'
FROM instance i
JOIN bookmark b ON b.instance_id = i.id AND b.tenant_id = i.tenant_id AND b.id = $5
WHERE i.id = $3 AND i.tenant_id = $2 AND i.status = 0 /* running */
  AND (extract(epoch FROM i.created_at) * 1000000)::bigint = $4
FOR KEY SHARE OF i
RETURNING expires_at
