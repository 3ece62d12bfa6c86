-- purpose: keep the routes of new bookmarks, whose templates have parameters: a request finds them by the anchors of its path
-- caller:  store::commit::routes, before the batch, whose stimulus keys are locked: a purge of the same route came before, or waits.
--          A route of a request that loses is purged later
-- index:   bookmark_route_pkey
-- locks:   bookmark_route by id
INSERT INTO bookmark_route (id, tenant_id, anchor, hash, template, method)
SELECT n.id, n.tenant_id, n.anchor, n.hash, n.template, n.method
FROM unnest($1::bytea[], $2::text[], $3::bytea[], $4::bytea[], $5::text[], $6::text[])
    n(id, tenant_id, anchor, hash, template, method)
ORDER BY n.id
ON CONFLICT DO NOTHING
