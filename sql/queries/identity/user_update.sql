-- purpose: change a user: what is null stays. Another password, or the end of its right to sign in, ends its sessions but $6
-- caller:  store::identity::user, within a change
-- index:   identity_user_pkey, identity_session_user
-- locks:   the user, then its sessions
WITH changed AS (
    UPDATE identity_user u
    SET roles = coalesce($3::text[], u.roles), password_hash = coalesce($4, u.password_hash),
        disabled_at = CASE WHEN $5::boolean THEN coalesce(u.disabled_at, now()) WHEN NOT $5 THEN NULL ELSE u.disabled_at END,
        updated_at = now()
    WHERE u.tenant_id = $1 AND u.id = $2
    RETURNING u.id
), ended AS (
    DELETE FROM identity_session s
    WHERE s.user_id = (SELECT c.id FROM changed c) AND ($4::text IS NOT NULL OR coalesce($5, false))
      AND s.id IS DISTINCT FROM $6::uuid
)
SELECT c.id FROM changed c
