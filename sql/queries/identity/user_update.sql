-- purpose: change a user: what is null stays. Another password, or the end of its right to sign in, ends its sessions; another
--          password not that with the id $6. Nothing changes if the password is no longer the one with the hash $7
-- caller:  store::identity::user, within a change
-- index:   identity_user_pkey, identity_session_user
-- locks:   the user, then its sessions
WITH changed AS (
    UPDATE identity_user u
    SET roles = coalesce($3::text[], u.roles), password_hash = coalesce($4, u.password_hash),
        disabled_at = CASE WHEN $5::boolean THEN coalesce(u.disabled_at, now()) WHEN NOT $5 THEN NULL ELSE u.disabled_at END,
        updated_at = now()
    WHERE u.tenant_id = $1 AND u.id = $2 AND ($7::text IS NULL OR u.password_hash = $7)
    RETURNING u.id
), ended AS (
    DELETE FROM identity_session s
    WHERE s.user_id = (SELECT c.id FROM changed c) AND ($4::text IS NOT NULL OR coalesce($5, false))
      AND (s.id IS DISTINCT FROM $6::uuid OR coalesce($5, false))
)
SELECT c.id FROM changed c
