-- purpose: list the bookmarks of an instance
-- caller:  store::instance
-- index:   bookmark_pkey
-- locks:   none
SELECT b.id FROM bookmark b WHERE b.tenant_id = $1 AND b.instance_id = $2 ORDER BY b.id
