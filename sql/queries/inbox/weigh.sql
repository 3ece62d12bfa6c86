-- purpose: weigh the kept events: per tenant its total and whether it reaches its budget of $1 bytes (without a hash), and
--          those stimuli that reach their budget of $2 bytes, the heaviest first. The size of a payload is in its row: no
--          value is read
-- caller:  store::inbox
-- index:   none: all rows are read, without their payloads
-- locks:   none
WITH stimulus AS MATERIALIZED (
    SELECT x.tenant_id, x.hash,
           sum(256 + coalesce(pg_column_size(x.payload), 0) + coalesce(octet_length(x.correlation_id), 0))::bigint AS bytes
    FROM inbox x
    GROUP BY x.tenant_id, x.hash
)
SELECT s.tenant_id, NULL::bytea AS hash, sum(s.bytes)::bigint AS bytes,
       sum(s.bytes) >= $1::bigint AS is_full
FROM stimulus s
GROUP BY s.tenant_id
UNION ALL
SELECT f.tenant_id, f.hash, f.bytes, true
FROM (SELECT s.* FROM stimulus s WHERE s.bytes >= $2::bigint ORDER BY s.bytes DESC LIMIT 1000) f
