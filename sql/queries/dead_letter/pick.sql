-- purpose: list dead letters that match a filter (as dead_letter/list), oldest first, after a given one, and whether
--          each can be replayed in one statement with others: no stimulus, and no start with a schedule or an
--          activation strategy. Bodies of $12 bytes at most, or one dead letter; `found` counts without that bound
-- caller:  store::dead_letter
-- index:   dead_letter_pkey, dead_letter_instance, instance_pkey, definition_published
-- locks:   none
-- One statement with dead_letter/list would read and sort all that match for each batch: that one counts them and
-- joins instances, this one walks on by id and ends at its limit. A test compares the two filters.
-- pg_column_size reads no body, as bodies are stored uncompressed.
WITH page AS MATERIALIZED (
    SELECT d.tenant_id, d.id, coalesce(pg_column_size(d.body), 0) AS bytes
    FROM dead_letter d
    WHERE d.tenant_id = $1 AND ($2::text IS NULL OR d.instance_id = $2) AND ($3::bigint IS NULL OR d.id = $3)
          AND ($4::text IS NULL OR coalesce(d.definition_id, (SELECT i.definition_id FROM instance i
                                                              WHERE i.tenant_id = d.tenant_id AND i.id = d.instance_id)) = $4)
          AND ($5::smallint[] IS NULL OR d.kind = ANY ($5))
          AND ($6::smallint IS NULL OR CASE WHEN d.kind = 6 /* inbox */ THEN 2 /* expired */
                                         WHEN d.failures >= 20 THEN 0 /* failed */ ELSE 1 /* crashed */ END = $6)
          AND ($7::text IS NULL OR position(lower($7) IN lower(d.reason)) > 0)
          AND ($8::timestamptz IS NULL OR d.created_at >= $8) AND ($9::timestamptz IS NULL OR d.created_at < $9)
          AND d.id > $10
    ORDER BY d.id
    LIMIT $11
), measured AS (
    SELECT p.tenant_id, p.id, p.bytes, sum(p.bytes) OVER (ORDER BY p.id) AS total FROM page p
)
SELECT d.id, (SELECT count(*) FROM page) AS found,
       d.kind <> 6 /* inbox */ AND (d.kind <> 0 /* start */ OR (d.body->'payload'->>'scheduleId' IS NULL
                                   AND (SELECT true FROM definition n
                                        WHERE n.tenant_id = d.tenant_id AND n.definition_id = d.definition_id
                                          AND n.is_published AND n.activation_strategy > 0 /* always */
                                              LIMIT 1) IS NULL)) AS together
FROM measured m
JOIN dead_letter d ON d.tenant_id = m.tenant_id AND d.id = m.id
WHERE m.total <= $12::bigint OR m.total = m.bytes
ORDER BY d.id
