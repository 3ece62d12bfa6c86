-- purpose: delete sessions and counts of attempts that have expired, at most $1 of each
-- caller:  store::identity::session
-- index:   identity_session_expiry, login_attempt_until
-- locks:   sessions, then login_attempt; locked ones are skipped
WITH sessions AS (
    DELETE FROM identity_session s
    WHERE s.ctid = ANY (ARRAY(SELECT x.ctid FROM identity_session x WHERE x.expires_at <= now()
                              ORDER BY x.expires_at LIMIT $1 FOR UPDATE SKIP LOCKED))
    RETURNING 1
), attempts AS (
    DELETE FROM login_attempt a
    WHERE a.ctid = ANY (ARRAY(SELECT x.ctid FROM login_attempt x WHERE x.until <= now()
                              ORDER BY x.until LIMIT $1 FOR UPDATE SKIP LOCKED))
    RETURNING 1
)
SELECT greatest((SELECT count(*) FROM sessions), (SELECT count(*) FROM attempts)) AS purged
