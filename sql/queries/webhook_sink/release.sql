-- purpose: release claimed sinks, which any node may claim then
-- caller:  store::webhook::delivery
-- index:   webhook_sink_pkey
-- locks:   sinks by number
WITH held AS MATERIALIZED (
    SELECT s.number
    FROM unnest($2::integer[], $3::bigint[]) c(number, claim_no)
    JOIN webhook_sink s ON s.number = c.number AND s.claimed_by = $1 AND s.claim_no = c.claim_no
    ORDER BY s.number
    FOR NO KEY UPDATE OF s
)
UPDATE webhook_sink s SET claimed_by = NULL FROM held h WHERE s.number = h.number
