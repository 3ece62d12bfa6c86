-- purpose: delete an application: its key is good no more
-- caller:  store::identity::application, within a change
-- index:   identity_application_pkey
-- locks:   the application
DELETE FROM identity_application a WHERE a.tenant_id = $1 AND a.id = $2 RETURNING a.id
