-- purpose: add an application with the hash of its key, which expires after $7 microseconds, unless its name is taken or its tenant
--          has as many as $8
-- caller:  store::identity::application, within a change, which has locked revision
-- index:   identity_application_name
-- locks:   the name
WITH counted AS MATERIALIZED (
    SELECT count(*) AS number FROM identity_application a WHERE a.tenant_id = $2
), began AS (
    -- From now on requests need a credential, for ever.
    UPDATE revision SET has_callers = true WHERE only_row AND NOT has_callers
), made AS (
    INSERT INTO identity_application (id, tenant_id, name, roles, client_id, key_hash, expires_at)
    SELECT $1, $2, $3, $4::text[], $5, $6, now() + $7::bigint * interval '1 microsecond'
    FROM counted c WHERE c.number < $8::bigint
    ON CONFLICT DO NOTHING
    RETURNING 1
)
SELECT EXISTS (SELECT 1 FROM made) AS made, c.number < $8::bigint AS has_room FROM counted c
