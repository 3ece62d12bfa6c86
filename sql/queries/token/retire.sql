-- purpose: delete a key, which verifies nothing from then on, unless it still signs: it is the newest, or the next one is younger
--          than $2 microseconds, so that a node may not have read that one. Without $3 also unless links or refresh
--          tokens that it has signed can be used; at most $4 of either are counted
-- caller:  store::token
-- index:   token_key_pkey; sessions are read whole
-- locks:   token_key by id
WITH replaced AS MATERIALIZED (
    SELECT k.id FROM token_key k
    WHERE k.id = $1
      AND EXISTS (SELECT 1 FROM token_key n
                  WHERE n.id > k.id AND n.created_at <= clock_timestamp() - $2::bigint * interval '1 microsecond')
), living AS MATERIALIZED (
    -- A request of an operator: it may read all links.
    SELECT count(*) AS links
    FROM (SELECT 1 FROM resume_link l
          WHERE l.signed_by = $1 AND l.expires_at > clock_timestamp() AND l.revoked_at IS NULL AND l.uses_left > 0
            AND EXISTS (SELECT 1 FROM replaced)
          LIMIT $4) n
), signed_in AS MATERIALIZED (
    SELECT count(*) AS sessions
    FROM (SELECT 1 FROM identity_session s
          WHERE s.signed_by = $1 AND s.expires_at > clock_timestamp() AND EXISTS (SELECT 1 FROM replaced)
          LIMIT $4) n
), retired AS (
    DELETE FROM token_key k
    WHERE k.id = (SELECT r.id FROM replaced r)
      AND ($3 OR (SELECT v.links FROM living v) + (SELECT i.sessions FROM signed_in i) = 0)
    RETURNING k.id
)
SELECT EXISTS (SELECT 1 FROM retired) AS is_retired, (SELECT v.links FROM living v) AS links,
       (SELECT i.sessions FROM signed_in i) AS sessions,
       EXISTS (SELECT 1 FROM token_key k WHERE k.id = $1) AS was_known
