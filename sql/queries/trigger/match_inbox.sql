-- purpose: start what the inbox keeps for the triggers just published; each stimulus starts each trigger of its hash
--          once, unless the activation strategy refuses it; returns how many were refused
-- caller:  store::definition, in the publishing transaction, after the triggers were written
-- index:   trigger_pkey, inbox_target, activation_held
-- locks:   inbox rows, then activation by key, then work
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
), triggered AS MATERIALIZED (
    SELECT x.id, substr(encode(sha256(convert_to('inbox|' || x.id || '|' || $2 || '|' || t.activity_id, 'UTF8')), 'hex'),
                        1, 32) AS instance_id,
           t.activity_id, x.payload, x.correlation_id, d.definition_id, d.version_id, d.version, d.activation_strategy,
           CASE WHEN d.activation_strategy > 0 /* always */
               THEN activation_key(d.activation_strategy, d.definition_id, x.correlation_id) END AS held,
           CASE WHEN d.activation_strategy > 0 /* always */
               THEN activation_blocked($1, d.activation_strategy, d.definition_id, x.correlation_id)
                ELSE false END AS blocked
    FROM taken x
    JOIN trigger t ON t.tenant_id = $1 AND t.definition_id = $2 AND t.hash = x.hash
    JOIN definition d ON d.tenant_id = $1 AND d.definition_id = $2 AND d.is_published
), activated AS (
    INSERT INTO activation (tenant_id, key, instance_id, exclusive, strategy, definition_id, correlation_id)
    SELECT $1, g.held, g.instance_id, true, g.activation_strategy, g.definition_id, nullif(g.correlation_id, '')
    FROM triggered g
    WHERE g.held IS NOT NULL AND NOT g.blocked
    ORDER BY g.held, g.id, g.activity_id
    ON CONFLICT DO NOTHING
    RETURNING instance_id
), started AS (
    INSERT INTO work (tenant_id, instance_id, kind, definition_id, version_id, definition_version, body)
    SELECT $1, g.instance_id, 0 /* start */, g.definition_id, g.version_id, g.version,
           json_build_object('triggerActivityId', g.activity_id, 'payload', g.payload,
                             'correlationId', g.correlation_id)
    FROM triggered g
    WHERE g.held IS NULL OR EXISTS (SELECT 1 FROM activated a WHERE a.instance_id = g.instance_id)
    RETURNING 1
)
SELECT (SELECT count(*) FROM triggered) - (SELECT count(*) FROM started) AS refused
