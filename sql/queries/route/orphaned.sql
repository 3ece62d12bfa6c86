-- purpose: list routes of bookmarks, from one on, for whose stimulus nothing waits
-- caller:  store::route, a job of the cluster
-- index:   bookmark_route_pkey, bookmark_hash
-- locks:   none
SELECT r.id, r.tenant_id, r.hash,
       (SELECT true FROM bookmark b WHERE b.hash = r.hash AND b.publishable LIMIT 1) IS NULL AS is_orphaned
FROM bookmark_route r
WHERE r.id > $1
ORDER BY r.id
LIMIT $2
