-- purpose: accept starts that have no idempotency key, of workflows without an activation strategy; as accept_start, without
--          what is for those. A start of a workflow that has a strategy, or just had one, is not touched, and told apart
-- caller:  store::accept
-- index:   definition_published, instance_pkey, work_start
-- locks:   work
WITH wanted AS MATERIALIZED (
    SELECT s.no, s.tenant_id, s.instance_id, s.definition_id, s.body, s.claimed, d.version_id, d.version,
           d.activation > 0 OR d.seeding > 0 AS strict,
           -- What is born claimed has an id that was made for it.
           NOT s.claimed AND
           coalesce((SELECT true FROM instance i WHERE i.tenant_id = s.tenant_id AND i.id = s.instance_id LIMIT 1),
                    (SELECT true FROM work w WHERE w.tenant_id = s.tenant_id AND w.instance_id = s.instance_id
                     AND w.kind = 0 LIMIT 1),
                    false) AS taken
    FROM unnest($2::accept_start[]) s
    LEFT JOIN definition d
        ON d.tenant_id = s.tenant_id AND d.definition_id = s.definition_id AND d.is_published
), made AS (
    INSERT INTO work (tenant_id, instance_id, kind, definition_id, version_id, definition_version, body, claimed_by,
                      claim_no)
    SELECT w.tenant_id, w.instance_id, 0, w.definition_id, w.version_id, w.version, w.body,
           CASE WHEN w.claimed THEN $1::bigint END, CASE WHEN w.claimed THEN 1 ELSE 0 END
    FROM wanted w
    WHERE w.version_id IS NOT NULL AND NOT w.taken AND NOT w.strict
    ORDER BY w.tenant_id, w.instance_id
    -- A rival that took the id since our snapshot fails the statement: the batch is tried one by one.
    RETURNING tenant_id, instance_id, id
)
SELECT w.no, w.version_id, w.version, m.id, false AS cannot_start, false AS unseeded, now(), coalesce(w.strict, false)
FROM wanted w
LEFT JOIN made m ON m.tenant_id = w.tenant_id AND m.instance_id = w.instance_id
