-- purpose: give a fan-out its turn: start what its triggers start, draw the cut of its pages, and count what waits for
--          it, up to $7. If nothing waits, it is finished; if nothing was triggered either, the inbox keeps it until it expires. While an activation
--          strategy is being seeded the statement fails, to be tried again
-- caller:  store::fan_out, in the transaction that holds the fan-out and its stimulus keys
-- index:   bookmark_hash or bookmark_correlation or (bookmark_pkey, bookmark_crowded), trigger_hash, definition_published, activation_held
-- locks:   activation by key, then work, then inbox
-- Bookmarks that are committed later have a higher number than the cut, as their commits share the stimulus keys.
WITH waits AS MATERIALIZED (
    SELECT count(*) AS most FROM (
        SELECT 1
--[any or correlated
        FROM bookmark b
--]
--[targeted
        FROM (SELECT f.* FROM bookmark f WHERE f.instance_id = $5 AND f.id < 'z' AND f.hash || '' = $3
              UNION ALL
              SELECT c.* FROM bookmark c WHERE c.instance_id = $5 AND c.id >= 'z' AND c.hash || '' = $3) b
--]
        WHERE b.tenant_id = $2 AND b.publishable
--[any
          AND b.hash = $3
--]
--[correlated
          AND b.hash = $3 AND hashtextextended(b.correlation_id, 0) = hashtextextended($4, 0) AND b.correlation_id = $4
--]
--[targeted
          AND ($4::text IS NULL OR b.correlation_id = $4)
--]
          AND ($6::text IS NULL OR b.activity_execution_id = $6)
        LIMIT $7::bigint) w
), triggered AS MATERIALIZED (
    SELECT substr(encode(sha256(convert_to(concat_ws('|', 'fan-out', f.id, t.definition_id, t.activity_id), 'UTF8')), 'hex'),
                  1, 32) AS instance_id,
           f.payload, t.activity_id, d.definition_id, d.version_id, d.version, d.activation_strategy,
           CASE WHEN d.activation_strategy > 0 /* always */
               THEN activation_key(d.activation_strategy, d.definition_id, $4) END AS held,
           CASE WHEN d.seeding = 2 /* seed */ THEN raise_activation_unseeded()
                WHEN d.activation_strategy > 0 /* always */
                    THEN activation_blocked($2, d.activation_strategy, d.definition_id, $4)
                ELSE false END AS blocked
    FROM fan_out f
    JOIN trigger t ON t.tenant_id = $2 AND t.hash = $3
    JOIN definition d ON d.tenant_id = t.tenant_id AND d.definition_id = t.definition_id AND d.is_published
    WHERE f.id = $1 AND $5::text IS NULL AND $6::text IS NULL
), activated AS (
    INSERT INTO activation (tenant_id, key, instance_id, exclusive, strategy, definition_id, correlation_id)
    SELECT $2, g.held, g.instance_id, true, g.activation_strategy, g.definition_id, nullif($4, '')
    FROM triggered g
    WHERE g.held IS NOT NULL AND NOT g.blocked
    ORDER BY g.held, g.activity_id
    ON CONFLICT DO NOTHING
    RETURNING instance_id
), started AS (
    INSERT INTO work (tenant_id, instance_id, kind, definition_id, version_id, definition_version, body)
    SELECT $2, g.instance_id, 0 /* start */, g.definition_id, g.version_id, g.version,
           json_build_object('triggerActivityId', g.activity_id, 'payload', g.payload, 'correlationId', $4::text)
    FROM triggered g
    WHERE g.held IS NULL OR EXISTS (SELECT 1 FROM activated a WHERE a.instance_id = g.instance_id)
    RETURNING instance_id
), kept AS (
    INSERT INTO inbox (tenant_id, hash, name, payload, correlation_id, instance_id, activity_execution_id, expires_at)
    SELECT f.tenant_id, f.hash, f.name, f.payload, f.correlation_id, f.instance_id, f.activity_execution_id, f.expires_at
    FROM fan_out f
    WHERE f.id = $1 AND (SELECT w.most = 0 FROM waits w) AND NOT EXISTS (SELECT 1 FROM triggered)
    RETURNING 1
), turned AS (
    UPDATE fan_out f
    SET began_at = coalesce(f.began_at, now()), cut = nextval('bookmark_number'), cursor = 0,
        -- A start that is refused has matched its trigger.
        started = f.started + (SELECT count(*) FROM triggered),
        finished_at = CASE WHEN (SELECT w.most FROM waits w) = 0 THEN now() END
    WHERE f.id = $1
    RETURNING f.cut
)
SELECT (SELECT count(*) FROM started) AS started, (SELECT count(*) FROM kept) AS kept,
       (SELECT w.most FROM waits w) AS waiting, (SELECT t.cut FROM turned t) AS cut,
       ARRAY(SELECT g.definition_id FROM triggered g
             WHERE NOT EXISTS (SELECT 1 FROM started s WHERE s.instance_id = g.instance_id)) AS refused
