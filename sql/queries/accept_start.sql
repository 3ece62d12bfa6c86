-- purpose: accept starts durably, resolving the version that is published at this moment; claimed at once when $3 says so
-- caller:  store::accept
-- index:   definition_published, instance_pkey, request_pkey, work_start
-- locks:   request by key, then work
WITH wanted AS MATERIALIZED (
    SELECT s.no, s.tenant_id, s.instance_id, s.definition_id, s.body, s.route, s.key, s.fingerprint,
           d.version_id, d.version,
           EXISTS (SELECT 1 FROM instance i WHERE i.tenant_id = s.tenant_id AND i.id = s.instance_id)
           OR EXISTS (SELECT 1 FROM work w WHERE w.tenant_id = s.tenant_id AND w.instance_id = s.instance_id
                      AND w.kind = 0) AS taken
    FROM unnest($2::accept_start[]) s
    LEFT JOIN definition d
        ON d.tenant_id = s.tenant_id AND d.definition_id = s.definition_id AND d.is_published
), remembered AS (
    INSERT INTO request (tenant_id, route, key, fingerprint, instance_id)
    SELECT w.tenant_id, w.route, w.key, w.fingerprint, w.instance_id
    FROM wanted w
    WHERE w.key IS NOT NULL AND w.version_id IS NOT NULL AND NOT w.taken
    ORDER BY w.tenant_id, w.route, w.key
    ON CONFLICT (tenant_id, route, key) DO UPDATE
        SET fingerprint = excluded.fingerprint, instance_id = excluded.instance_id, answer = NULL,
            expires_at = excluded.expires_at
        -- A key whose time is over stands for nothing, also before it is swept.
        WHERE request.expires_at <= now()
    RETURNING tenant_id, route, key
), made AS (
    INSERT INTO work (tenant_id, instance_id, kind, definition_id, version_id, definition_version, body, claimed_by,
                      claim_no)
    SELECT w.tenant_id, w.instance_id, 0, w.definition_id, w.version_id, w.version, w.body,
           CASE WHEN $3 THEN $1::bigint END, CASE WHEN $3 THEN 1 ELSE 0 END
    FROM wanted w
    LEFT JOIN remembered r ON r.tenant_id = w.tenant_id AND r.route = w.route AND r.key = w.key
    WHERE w.version_id IS NOT NULL AND NOT w.taken AND (w.key IS NULL OR r.key IS NOT NULL)
    ORDER BY w.tenant_id, w.instance_id
    -- A rival that took the id since our snapshot fails the statement, and our key with it: the batch is tried one by
    -- one, and this start is told that its id is taken.
    RETURNING tenant_id, instance_id, id
)
SELECT w.no, w.version_id, w.version, m.id
FROM wanted w
LEFT JOIN made m ON m.tenant_id = w.tenant_id AND m.instance_id = w.instance_id
