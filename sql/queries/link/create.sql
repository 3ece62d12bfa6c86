-- purpose: make a resume link for a bookmark that waits now, which expires after $6 microseconds, unless the instance has $9 links
-- caller:  store::link
-- index:   resume_link_pkey, resume_link_instance, instance_pkey, bookmark_pkey
-- locks:   instance (key share), so that a delete of it comes after, or before; then resume_link by id
WITH waiting AS MATERIALIZED (
    SELECT b.id FROM instance i
    JOIN bookmark b ON b.instance_id = i.id AND b.tenant_id = i.tenant_id AND b.id = $5
    WHERE i.id = $3 AND i.tenant_id = $2 AND i.status = 0 /* running */
      AND (extract(epoch FROM i.created_at) * 1000000)::bigint = $4
    FOR KEY SHARE OF i
), counted AS MATERIALIZED (
    SELECT count(*) < $9 AS has_room
    FROM (SELECT 1 FROM resume_link l WHERE l.instance_id = $3 AND l.tenant_id = $2 LIMIT $9) n
), made AS (
    INSERT INTO resume_link (id, tenant_id, instance_id, generation, bookmark_id, uses, uses_left, expires_at, signed_by)
    SELECT $1, $2, $3, $4, w.id, $7, $7, clock_timestamp() + $6::bigint * interval '1 microsecond', $8
    FROM waiting w, counted c
    WHERE c.has_room
    RETURNING expires_at
)
SELECT (SELECT m.expires_at FROM made m) AS expires_at, (SELECT c.has_room FROM counted c) AS has_room
