-- purpose: keep the hash of a password with newer parameters, if the password is still the one that was verified
-- caller:  store::identity::user
-- index:   identity_user_pkey
-- locks:   the user
UPDATE identity_user u SET password_hash = $3 WHERE u.id = $1 AND u.password_hash = $2
