-- purpose: add a role, unless its id is taken or its tenant has as many as $5
-- caller:  store::identity::role, within a change
-- index:   identity_role_pkey
-- locks:   the id
WITH counted AS MATERIALIZED (
    SELECT count(*) AS number FROM identity_role o WHERE o.tenant_id = $1
), made AS (
    INSERT INTO identity_role (tenant_id, id, name, permissions)
    SELECT $1, $2, $3, $4::text[] FROM counted c WHERE c.number < $5::bigint
    ON CONFLICT DO NOTHING
    RETURNING 1
)
SELECT EXISTS (SELECT 1 FROM made) AS made, c.number < $5::bigint AS has_room FROM counted c
