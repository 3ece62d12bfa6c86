-- purpose: forget stimuli and idempotency keys whose time is over; targeted stimuli are kept, to become dead letters
-- caller:  store::housekeeping
-- index:   inbox_expiry, request_expiry
-- locks:   inbox rows, then request rows; locked ones are skipped
WITH stale AS MATERIALIZED (
    SELECT tenant_id, id FROM inbox WHERE expires_at <= now() AND instance_id IS NULL
    ORDER BY expires_at LIMIT 1000 FOR UPDATE SKIP LOCKED
), spent AS MATERIALIZED (
    SELECT tenant_id, route, key FROM request WHERE expires_at <= now()
    ORDER BY expires_at LIMIT 1000 FOR UPDATE SKIP LOCKED
), inbox_gone AS (
    DELETE FROM inbox x USING stale s WHERE x.tenant_id = s.tenant_id AND x.id = s.id RETURNING 1
), request_gone AS (
    DELETE FROM request q USING spent s WHERE q.tenant_id = s.tenant_id AND q.route = s.route AND q.key = s.key
    RETURNING 1
)
SELECT (SELECT count(*) FROM inbox_gone) + (SELECT count(*) FROM request_gone)
