-- purpose: give a tenant without roles a copy of those of the default tenant
-- caller:  store::identity::role, within a change
-- index:   identity_role has some rows for each tenant
-- locks:   none: changes of users and roles wait for each other
INSERT INTO identity_role (tenant_id, id, name, permissions)
SELECT $1, o.id, o.name, o.permissions FROM identity_role o
WHERE o.tenant_id = '' AND NOT EXISTS (SELECT 1 FROM identity_role x WHERE x.tenant_id = $1)
