-- purpose: add a user, unless its name is taken or its tenant has as many as $6
-- caller:  store::identity::user, within a change, which has locked revision
-- index:   identity_user_name
-- locks:   the name
WITH counted AS MATERIALIZED (
    SELECT count(*) AS number FROM identity_user u WHERE u.tenant_id = $2
), began AS (
    -- From now on requests need a credential, for ever.
    UPDATE revision SET has_callers = true WHERE only_row AND NOT has_callers
), made AS (
    INSERT INTO identity_user (id, tenant_id, name, roles, password_hash)
    SELECT $1, $2, $3, $4::text[], $5 FROM counted c WHERE c.number < $6::bigint
    ON CONFLICT DO NOTHING
    RETURNING 1
)
SELECT EXISTS (SELECT 1 FROM made) AS made, c.number < $6::bigint AS has_room FROM counted c
