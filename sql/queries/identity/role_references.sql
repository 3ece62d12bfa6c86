-- purpose: list the users and applications that have a role
-- caller:  store::identity::role
-- index:   users and applications are read whole: the API bounds how many there are
-- locks:   none
SELECT true AS is_user, u.id, u.name FROM identity_user u WHERE u.tenant_id = $1 AND $2::text = ANY (u.roles)
UNION ALL
SELECT false, a.id, a.name FROM identity_application a WHERE a.tenant_id = $1 AND $2 = ANY (a.roles)
ORDER BY is_user DESC, id
