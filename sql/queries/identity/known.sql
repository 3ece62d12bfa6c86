-- purpose: read all applications with what they may do, whether there ever was a user or application, and the revision of that, for the cache of a node
-- caller:  store::identity::application
-- index:   identity_application is read whole: the API bounds how many there are. identity_role_pkey
-- locks:   none
SELECT r.identity AS revision, r.has_callers AS is_in_use,
       a.id, a.tenant_id, a.name, a.key_hash, a.expires_at,
       ARRAY(SELECT DISTINCT p.name FROM identity_role o CROSS JOIN LATERAL unnest(o.permissions) p(name)
             WHERE o.tenant_id = a.tenant_id AND o.id = ANY (a.roles)) AS permissions
FROM revision r
LEFT JOIN identity_application a ON a.expires_at IS NULL OR a.expires_at > now()
