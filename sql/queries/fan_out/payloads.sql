-- purpose: read the payloads that claimed rows refer to
-- caller:  store::fan_out
-- index:   fan_out_pkey
-- locks:   none
SELECT f.id, f.payload FROM fan_out f WHERE f.id = ANY ($1::bigint[])
