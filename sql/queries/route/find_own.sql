-- purpose: find the endpoints at which one instance waits
-- caller:  store::route::lookup, for a request that names the instance
-- index:   bookmark_pkey, instance_pkey
-- locks:   none
SELECT b.hash, b.instance_id, b.id AS bookmark_id, b.payload,
       (SELECT i.created_at FROM instance i WHERE i.id = b.instance_id AND i.tenant_id = $1) AS created_at
FROM bookmark b
WHERE b.instance_id = $2 AND b.tenant_id = $1 AND b.publishable AND b.name = 'Elsa.HttpEndpoint'
  AND coalesce(b.correlation_id = $3::text, $3::text IS NULL)
LIMIT $4
