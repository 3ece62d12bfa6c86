-- purpose: add a key, which signs from now on, unless there are $1 already
-- caller:  store::token
-- index:   token_key_pkey
-- locks:   token_key by id: one of two at once is refused as a duplicate
INSERT INTO token_key (id, key)
SELECT max(k.id) + 1, sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8'))
FROM token_key k
HAVING count(*) < $1
RETURNING id, created_at
