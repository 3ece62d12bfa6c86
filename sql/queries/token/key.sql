-- purpose: read the key that signs tokens
-- caller:  store::token
-- index:   token_key_pkey
-- locks:   none
SELECT k.key FROM token_key k
