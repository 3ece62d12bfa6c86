-- purpose: end a session
-- caller:  store::identity::session, within a change
-- index:   identity_session_pkey
-- locks:   the session
DELETE FROM identity_session s WHERE s.id = $1 RETURNING s.id
