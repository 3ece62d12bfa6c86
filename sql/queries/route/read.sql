-- purpose: read the routes of published endpoints that are newer than a revision, with the newest revision and the number of all
--          routes. A publish writes all triggers of its definition again
-- caller:  store::route::lookup
-- index:   revision_pkey, trigger_route_revision
-- locks:   none; one snapshot
SELECT r.revision,
       (SELECT count(*) FROM trigger c WHERE c.name = 'Elsa.HttpEndpoint' AND c.tenant_id = $1) AS total,
       t.definition_id, t.activity_id, t.hash, t.payload, t.revision AS trigger_revision
FROM revision r
LEFT JOIN trigger t ON t.name = 'Elsa.HttpEndpoint' AND t.tenant_id = $1 AND t.revision > $2
WHERE r.only_row
