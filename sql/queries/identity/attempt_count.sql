-- purpose: count an attempt to sign in as a failure before its password is looked at, so that attempts at once cannot exceed a
--          limit; and read whether the client has signed in under this name before ($3)
-- caller:  store::identity::attempt
-- index:   login_attempt_pkey
-- locks:   login_attempt by key
INSERT INTO login_attempt AS a (key, failures, until)
SELECT k.key, 1, clock_timestamp() + $2::bigint * interval '1 microsecond' FROM unnest($1::bytea[]) k(key) ORDER BY k.key
ON CONFLICT (key) DO UPDATE
SET failures = CASE WHEN a.until <= clock_timestamp() THEN 1 ELSE least(a.failures, 1000000) + 1 END,
    until = CASE WHEN a.until <= clock_timestamp() THEN excluded.until ELSE a.until END
RETURNING a.key, a.failures, (extract(epoch FROM a.until - clock_timestamp()) * 1000000)::bigint AS left_micros,
          EXISTS (SELECT 1 FROM login_attempt x WHERE x.key = $3 AND x.until > clock_timestamp()) AS is_known
