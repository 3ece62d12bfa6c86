-- purpose: find the bookmarks that wait for requests of these stimuli, and the routes of bookmarks that may match a path, by its
--          anchors; with the revision of the definitions, in one snapshot
-- caller:  store::route::lookup, for a request
-- index:   revision_pkey, bookmark_hash or bookmark_correlation or (bookmark_pkey, bookmark_crowded), bookmark_route_anchor, instance_pkey
-- locks:   none
-- A request names an instance (part targeted), else a correlation id (correlated), else neither (any).
WITH waiting AS MATERIALIZED (
    SELECT h.hash, w.instance_id, w.id, w.payload,
           (SELECT i.created_at FROM instance i WHERE i.id = w.instance_id AND i.tenant_id = $1) AS created_at
    FROM unnest($2::bytea[]) h(hash)
    CROSS JOIN LATERAL (
        SELECT b.instance_id, b.id, b.payload
--[any or correlated
        FROM bookmark b
--]
--[targeted
        -- Not by the hash, for which any number of other instances may wait, and not by all bookmarks of the instance.
        FROM (SELECT f.* FROM bookmark f WHERE f.instance_id = $4 AND f.id < 'z' AND f.hash || '' = h.hash
              UNION ALL
              SELECT c.* FROM bookmark c WHERE c.instance_id = $4 AND c.id >= 'z' AND c.hash || '' = h.hash) b
--]
        WHERE b.tenant_id = $1 AND b.publishable
--[any
          AND b.hash = h.hash AND coalesce($4::text, $5::text) IS NULL
--]
--[correlated
          AND b.hash = h.hash AND hashtextextended(b.correlation_id, 0) = hashtextextended($5, 0)
          AND b.correlation_id = $5 AND $4::text IS NULL
--]
--[targeted
          AND ($5::text IS NULL OR b.correlation_id = $5)
--]
        LIMIT $6) w
), routes AS MATERIALIZED (
    SELECT r.hash, r.template, r.method
    FROM unnest($3::bytea[]) a(anchor)
    CROSS JOIN LATERAL (
        SELECT b.hash, b.template, b.method FROM bookmark_route b
        WHERE b.anchor = a.anchor AND b.tenant_id = $1
        LIMIT $7) r
    LIMIT $7
)
SELECT r.revision, x.hash, x.template, x.method, x.instance_id, x.bookmark_id, x.payload, x.created_at
FROM revision r
LEFT JOIN (SELECT w.hash, NULL::text AS template, NULL::text AS method, w.instance_id, w.id AS bookmark_id, w.payload,
                  w.created_at
           FROM waiting w WHERE w.created_at IS NOT NULL
           UNION ALL
           SELECT o.hash, o.template, o.method, NULL, NULL, NULL, NULL FROM routes o) x ON true
WHERE r.only_row
