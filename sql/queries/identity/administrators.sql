-- purpose: count the users that can sign in and may do everything
-- caller:  store::identity, within a change
-- index:   identity_role_pkey; identity_user is read whole: the API bounds how many there are
-- locks:   none; revision is locked
SELECT count(*) AS administrators FROM identity_user u
WHERE u.tenant_id = $1 AND u.disabled_at IS NULL
  AND EXISTS (SELECT 1 FROM identity_role o
              WHERE o.tenant_id = u.tenant_id AND o.id = ANY (u.roles) AND '*' = ANY (o.permissions))
