-- purpose: begin a session of a user whose password was verified, if it is still that one and the user may sign in
-- caller:  store::identity::session
-- index:   identity_user_pkey
-- locks:   the user (share), so that a change of it comes before, or ends the session; the id
WITH of AS MATERIALIZED (
    SELECT u.id, u.tenant_id, u.name, u.roles FROM identity_user u
    WHERE u.id = $1 AND u.password_hash = $2 AND u.disabled_at IS NULL
    FOR SHARE
), opened AS (
    INSERT INTO identity_session (id, tenant_id, user_id, current, issued_at, signed_by, expires_at)
    SELECT $3, o.tenant_id, o.id, $4, t.now, $5, t.now + $6::bigint * interval '1 microsecond'
    FROM of o, (SELECT clock_timestamp() AS now) t
    RETURNING issued_at
)
SELECT o.id AS user_id, o.tenant_id, o.name, o.roles, s.issued_at,
       ARRAY(SELECT DISTINCT p.name FROM identity_role r CROSS JOIN LATERAL unnest(r.permissions) p(name)
             WHERE r.tenant_id = o.tenant_id AND r.id = ANY (o.roles) ORDER BY 1) AS permissions
FROM of o, opened s
