-- purpose: delete a key, which verifies nothing from then on, unless it still signs: it is the newest, or the next one is younger
--          than $2 microseconds, so that a node may not have read that one
-- caller:  store::token
-- index:   token_key_pkey
-- locks:   token_key by id
WITH retired AS (
    DELETE FROM token_key k
    WHERE k.id = $1
      AND EXISTS (SELECT 1 FROM token_key n
                  WHERE n.id > k.id AND n.created_at <= clock_timestamp() - $2::bigint * interval '1 microsecond')
    RETURNING k.id
)
SELECT EXISTS (SELECT 1 FROM retired) AS is_retired,
       EXISTS (SELECT 1 FROM token_key k WHERE k.id = $1) AS was_known
