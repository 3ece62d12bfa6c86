-- purpose: read which of these roles there are, and what each of them permits
-- caller:  store::identity::role, within a change
-- index:   identity_role_pkey
-- locks:   none; revision is locked
SELECT o.id, o.permissions FROM identity_role o WHERE o.tenant_id = $1 AND o.id = ANY ($2::text[])
