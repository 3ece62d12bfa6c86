-- purpose: use a refresh token ($2) of a session: it makes another one ($3) the good one. The one before gets the same answer for
--          $6 microseconds; any other one is a copy that is used a second time,
--          after which no refresh token of the session is good
-- caller:  store::identity::session
-- index:   identity_session_pkey, identity_user_pkey, identity_role_pkey
-- locks:   the session: of two uses at once the second one reads what the first one has left
WITH held AS MATERIALIZED (
    SELECT s.* FROM identity_session s WHERE s.id = $1 FOR NO KEY UPDATE
), judged AS MATERIALIZED (
    SELECT h.*, CASE WHEN h.expires_at <= clock_timestamp() THEN 'expired'
                     WHEN h.current = $2 THEN 'rotated'
                     WHEN h.previous = $2 AND h.issued_at > clock_timestamp() - $6::bigint * interval '1 microsecond'
                         THEN 'repeated'
                     ELSE 'reused' END AS verdict
    FROM held h
), rotated AS (
    UPDATE identity_session s
    SET previous = s.current, current = $3, issued_at = clock_timestamp(), signed_by = $4,
        expires_at = clock_timestamp() + $5::bigint * interval '1 microsecond'
    WHERE s.id = $1 AND (SELECT j.verdict FROM judged j) = 'rotated'
    RETURNING s.current, s.issued_at, s.signed_by
), ended AS (
    UPDATE identity_session s SET expires_at = clock_timestamp()
    WHERE s.id = $1 AND (SELECT j.verdict FROM judged j) = 'reused'
)
SELECT j.verdict, coalesce(r.current, j.current) AS current, coalesce(r.issued_at, j.issued_at) AS issued_at,
       coalesce(r.signed_by, j.signed_by) AS signed_by, u.id AS user_id, u.tenant_id, u.name, u.roles,
       ARRAY(SELECT DISTINCT p.name FROM identity_role o CROSS JOIN LATERAL unnest(o.permissions) p(name)
             WHERE o.tenant_id = u.tenant_id AND o.id = ANY (u.roles) ORDER BY 1) AS permissions
FROM judged j
LEFT JOIN rotated r ON true
JOIN identity_user u ON u.id = j.user_id AND u.disabled_at IS NULL
