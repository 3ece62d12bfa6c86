-- purpose: delete a role, and take it from the users and applications that have it
-- caller:  store::identity::role, within a change
-- index:   identity_role_pkey; users and applications are read whole: the API bounds how many there are
-- locks:   the role, then users, then applications
WITH deleted AS (
    DELETE FROM identity_role o WHERE o.tenant_id = $1 AND o.id = $2 RETURNING o.id
), users AS (
    UPDATE identity_user u SET roles = array_remove(u.roles, $2), updated_at = now()
    WHERE u.tenant_id = $1 AND $2 = ANY (u.roles) AND EXISTS (SELECT 1 FROM deleted)
), applications AS (
    UPDATE identity_application a SET roles = array_remove(a.roles, $2), updated_at = now()
    WHERE a.tenant_id = $1 AND $2 = ANY (a.roles) AND EXISTS (SELECT 1 FROM deleted)
)
SELECT d.id FROM deleted d
