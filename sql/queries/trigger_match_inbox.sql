-- purpose: start what the inbox keeps for the triggers just published; each stimulus starts each trigger of its hash once
-- caller:  store::definition, in the publishing transaction, after the triggers were written
-- index:   trigger_pkey, inbox_hash
-- locks:   inbox rows, then work
WITH kept AS MATERIALIZED (
    SELECT x.tenant_id, x.id
    FROM inbox x
    WHERE x.tenant_id = $1
      AND x.hash IN (SELECT t.hash FROM trigger t WHERE t.tenant_id = $1 AND t.definition_id = $2)
      AND x.instance_id IS NULL AND x.activity_execution_id IS NULL AND x.expires_at > now()
    ORDER BY x.tenant_id, x.id
    FOR UPDATE OF x
), taken AS (
    DELETE FROM inbox x
    USING kept k
    WHERE x.tenant_id = k.tenant_id AND x.id = k.id
    RETURNING x.id, x.hash, x.payload, x.correlation_id
)
INSERT INTO work (tenant_id, instance_id, kind, definition_id, version_id, definition_version, body)
SELECT $1, substr(encode(sha256(convert_to('inbox|' || x.id || '|' || $2 || '|' || t.activity_id, 'UTF8')), 'hex'), 1, 32),
       0, d.definition_id, d.version_id, d.version,
       json_build_object('triggerActivityId', t.activity_id, 'payload', x.payload, 'correlationId', x.correlation_id)
FROM taken x
JOIN trigger t ON t.tenant_id = $1 AND t.definition_id = $2 AND t.hash = x.hash
JOIN definition d ON d.tenant_id = $1 AND d.definition_id = $2 AND d.is_published
