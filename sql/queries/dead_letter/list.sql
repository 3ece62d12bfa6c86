-- purpose: list dead letters that match a filter, newest first, with their number: by instance, id, definition,
--          kinds, cause (0 failed, 1 crashed, 2 expired), a part of the reason, and time
-- caller:  store::dead_letter
-- index:   dead_letter_pkey, dead_letter_instance, instance_pkey
-- locks:   none
WITH fits AS MATERIALIZED (
    SELECT d.id
    FROM dead_letter d
    WHERE d.tenant_id = $1 AND ($2::text IS NULL OR d.instance_id = $2) AND ($3::bigint IS NULL OR d.id = $3)
      AND ($4::text IS NULL OR coalesce(d.definition_id, (SELECT i.definition_id FROM instance i
                                                          WHERE i.tenant_id = d.tenant_id AND i.id = d.instance_id)) = $4)
      AND ($5::smallint[] IS NULL OR d.kind = ANY ($5))
      AND ($6::smallint IS NULL OR CASE WHEN d.kind = 6 /* inbox */ THEN 2 /* expired */
                                     WHEN d.failures >= 20 THEN 0 /* failed */ ELSE 1 /* crashed */ END = $6)
      AND ($7::text IS NULL OR position(lower($7) IN lower(d.reason)) > 0)
      AND ($8::timestamptz IS NULL OR d.created_at >= $8) AND ($9::timestamptz IS NULL OR d.created_at < $9)
), page AS (
    SELECT d.id, d.instance_id, d.kind, d.reason, d.created_at, d.failures, d.crashes, d.body, d.work_id, d.timer_id,
           coalesce(d.definition_id, i.definition_id) AS definition_id, CASE d.kind WHEN 6 /* inbox */
               THEN d.correlation_id ELSE i.correlation_id END AS correlation_id,
           d.accepted_at, encode(d.hash, 'hex') AS hash, d.activity_execution_id, d.name
    FROM (SELECT f.id FROM fits f ORDER BY f.id DESC LIMIT $10 OFFSET $11) f
    JOIN dead_letter d ON d.tenant_id = $1 AND d.id = f.id
    LEFT JOIN instance i ON i.tenant_id = d.tenant_id AND i.id = d.instance_id
)
SELECT (SELECT count(*) FROM fits) AS total, p.*
FROM (SELECT 1) one LEFT JOIN page p ON true
ORDER BY p.id DESC
