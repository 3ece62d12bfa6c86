-- purpose: delete a user, and end its sessions
-- caller:  store::identity::user, within a change
-- index:   identity_user_pkey, identity_session_user
-- locks:   the user, then its sessions
WITH deleted AS (
    DELETE FROM identity_user u WHERE u.tenant_id = $1 AND u.id = $2 RETURNING u.id
), ended AS (
    DELETE FROM identity_session s WHERE s.user_id = (SELECT d.id FROM deleted d)
)
SELECT d.id FROM deleted d
