-- purpose: note that a token for one connection was used, unless it was before or has expired
-- caller:  store::token
-- index:   idempotency_key_pkey
-- locks:   idempotency_key by key
WITH spent AS (
    INSERT INTO idempotency_key (tenant_id, route, key, fingerprint, expires_at)
    SELECT $1, 'hub', $2, '', $3::timestamptz + interval '1 minute'
    WHERE $3 > clock_timestamp()
    ON CONFLICT DO NOTHING
    RETURNING 1
)
SELECT EXISTS (SELECT 1 FROM spent) AS is_spent, $3 <= clock_timestamp() AS has_expired
