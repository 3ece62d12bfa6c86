-- purpose: list what was given up, newest first, with how many there are: all, of one instance, or one letter
-- caller:  store::dead_letter
-- index:   dead_letter_pkey, dead_letter_instance, instance_pkey
-- locks:   none
WITH page AS (
    SELECT d.id, d.instance_id, d.kind, d.reason, d.created_at, d.failures, d.crashes, d.body, d.work_id, d.timer_id,
           coalesce(d.definition_id, i.definition_id) AS definition_id, CASE d.kind WHEN 6 THEN d.correlation_id ELSE i.correlation_id END AS correlation_id,
           d.accepted_at, encode(d.hash, 'hex') AS hash, d.activity_execution_id, d.name
    FROM dead_letter d
    LEFT JOIN instance i ON i.tenant_id = d.tenant_id AND i.id = d.instance_id
    WHERE d.tenant_id = $1 AND ($2::text IS NULL OR d.instance_id = $2) AND ($3::bigint IS NULL OR d.id = $3)
    ORDER BY d.id DESC
    LIMIT $4 OFFSET $5
)
SELECT (SELECT count(*) FROM dead_letter d
        WHERE d.tenant_id = $1 AND ($2::text IS NULL OR d.instance_id = $2) AND ($3::bigint IS NULL OR d.id = $3)) AS total,
       p.*
FROM (SELECT 1) one LEFT JOIN page p ON true
ORDER BY p.id DESC
