-- purpose: find the user that signs in, with the hash of its password
-- caller:  store::identity::user
-- index:   identity_user_name
-- locks:   none
SELECT u.id, u.tenant_id, u.password_hash, u.disabled_at IS NOT NULL AS is_disabled FROM identity_user u
WHERE lower(u.name) = lower($1::text COLLATE "C")
