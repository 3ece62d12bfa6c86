-- purpose: take back the failure that was counted for an attempt that succeeded, and remember the client for $3 microseconds
-- caller:  store::identity::attempt
-- index:   login_attempt_pkey
-- locks:   login_attempt: the client, then the pair, then the name, then what remembers the client
WITH taken AS MATERIALIZED (
    SELECT a.key FROM unnest($1::bytea[]) WITH ORDINALITY k(key, number) JOIN login_attempt a ON a.key = k.key
    ORDER BY k.number FOR NO KEY UPDATE OF a
), reduced AS (
    UPDATE login_attempt a SET failures = greatest(a.failures - 1, 0) FROM taken t WHERE a.key = t.key
)
INSERT INTO login_attempt AS a (key, failures, until)
VALUES ($2, 0, clock_timestamp() + $3::bigint * interval '1 microsecond')
ON CONFLICT (key) DO UPDATE SET until = excluded.until
