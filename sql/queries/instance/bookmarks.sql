-- purpose: list the bookmarks of an instance, with its creation time, which distinguishes instances of one id
-- caller:  store::instance
-- index:   instance_pkey, bookmark_pkey
-- locks:   none; one snapshot
SELECT i.created_at,
       ARRAY(SELECT b.id FROM bookmark b WHERE b.tenant_id = i.tenant_id AND b.instance_id = i.id ORDER BY b.id)
           AS bookmarks
FROM instance i
WHERE i.tenant_id = $1 AND i.id = $2
