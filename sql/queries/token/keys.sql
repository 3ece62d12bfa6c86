-- purpose: read the keys that verify resume links and tokens, the newest first, which signs
-- caller:  store::token
-- index:   none; token_key has a few rows
-- locks:   none
SELECT k.id, k.key, k.created_at, clock_timestamp() AS now FROM token_key k ORDER BY k.id DESC
