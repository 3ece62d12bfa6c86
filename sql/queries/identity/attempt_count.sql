-- purpose: count an attempt to sign in as a failure before its password is looked at, so that attempts at once cannot exceed a
--          limit: of its client ($1), of its name and client ($2), and of its name ($3). One that is refused counts no further. The
--          limits of one row do not hold for a client that has signed in under the name before ($5). Null: it is not refused
-- caller:  store::identity::attempt
-- index:   login_attempt_pkey
-- locks:   login_attempt: the client, then the pair, then the name
WITH known AS MATERIALIZED (
    SELECT EXISTS (SELECT 1 FROM login_attempt x WHERE x.key = $5 AND x.until > clock_timestamp()) AS is_known
), of_client AS (
    INSERT INTO login_attempt AS a (key, failures, until)
    VALUES ($1, 1, clock_timestamp() + $4::bigint * interval '1 microsecond')
    ON CONFLICT (key) DO UPDATE
    SET failures = CASE WHEN a.until <= clock_timestamp() THEN 1 ELSE least(a.failures, 1000000) + 1 END,
        until = CASE WHEN a.until <= clock_timestamp() THEN excluded.until ELSE a.until END
    RETURNING a.failures, a.until
), of_pair AS (
    INSERT INTO login_attempt AS a (key, failures, until)
    SELECT $2, 1, clock_timestamp() + $4::bigint * interval '1 microsecond'
    FROM of_client c, known k WHERE c.failures <= $7::integer OR k.is_known
    ON CONFLICT (key) DO UPDATE
    SET failures = CASE WHEN a.until <= clock_timestamp() THEN 1 ELSE least(a.failures, 1000000) + 1 END,
        until = CASE WHEN a.until <= clock_timestamp() THEN excluded.until ELSE a.until END
    RETURNING a.failures, a.until
), of_name AS (
    INSERT INTO login_attempt AS a (key, failures, until)
    SELECT $3, 1, clock_timestamp() + $4::bigint * interval '1 microsecond'
    FROM of_pair p WHERE p.failures <= $6::integer
    ON CONFLICT (key) DO UPDATE
    SET failures = CASE WHEN a.until <= clock_timestamp() THEN 1 ELSE least(a.failures, 1000000) + 1 END,
        until = CASE WHEN a.until <= clock_timestamp() THEN excluded.until ELSE a.until END
    RETURNING a.failures, a.until
)
SELECT max((extract(epoch FROM r.until - clock_timestamp()) * 1000000)::bigint) AS left_micros
FROM (SELECT c.until FROM of_client c, known k WHERE c.failures > $7 AND NOT k.is_known
      UNION ALL
      SELECT p.until FROM of_pair p WHERE p.failures > $6
      UNION ALL
      SELECT n.until FROM of_name n, known k WHERE n.failures > $7 AND NOT k.is_known) r
