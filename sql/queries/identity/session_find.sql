-- purpose: read whose session this is and what that user may do, with the revision of that, for the cache of a node
-- caller:  store::identity::session
-- index:   identity_session_pkey, identity_user_pkey, identity_role_pkey
-- locks:   none
SELECT v.identity AS revision, u.id AS user_id, u.tenant_id, u.name, u.roles,
       ARRAY(SELECT DISTINCT p.name FROM identity_role o CROSS JOIN LATERAL unnest(o.permissions) p(name)
             WHERE o.tenant_id = u.tenant_id AND o.id = ANY (u.roles)) AS permissions
FROM revision v
LEFT JOIN (SELECT x.* FROM identity_session s JOIN identity_user x ON x.id = s.user_id AND x.disabled_at IS NULL
           WHERE s.id = $1 AND s.expires_at > now()) u ON true
