-- purpose: read what a caller may do now: the user of the session $1, or the application $2. No row: it is not good any more
-- caller:  store::identity::application, within a change
-- index:   identity_session_pkey, identity_user_pkey, identity_application_pkey, identity_role_pkey
-- locks:   none: changes of users and roles wait for each other
SELECT ARRAY(SELECT DISTINCT p.name FROM identity_role o CROSS JOIN LATERAL unnest(o.permissions) p(name)
             WHERE o.tenant_id = c.tenant_id AND o.id = ANY (c.roles)) AS permissions
FROM (SELECT u.tenant_id, u.roles FROM identity_session s JOIN identity_user u ON u.id = s.user_id AND u.disabled_at IS NULL
      WHERE s.id = $1
      UNION ALL
      SELECT a.tenant_id, a.roles FROM identity_application a
      WHERE a.id = $2 AND (a.expires_at IS NULL OR a.expires_at > now())) c
