-- purpose: publish an event once: to every bookmark that waits for it, to every published trigger, else into the
--          inbox. A start that the activation strategy refuses is not made, and reported; while the strategy is being
--          seeded the statement fails, to be tried again
-- caller:  store::event, in the transaction that holds the stimulus key
-- index:   idempotency_key_pkey, bookmark_hash, instance_pkey, trigger_hash, definition_published, activation_held
-- locks:   idempotency_key by key, then activation by key, then work, then inbox
WITH accepted AS (
    INSERT INTO idempotency_key (tenant_id, route, key, fingerprint) VALUES ($1, $2, $3, $4)
    ON CONFLICT (tenant_id, route, key) DO UPDATE
        SET fingerprint = excluded.fingerprint, instance_id = excluded.instance_id,
            expires_at = excluded.expires_at
        -- An expired key is replaced, also before it is purged.
        WHERE idempotency_key.expires_at <= now()
    RETURNING expires_at
), waiting AS MATERIALIZED (
    SELECT b.instance_id, b.id
    FROM bookmark b
    JOIN instance i ON i.tenant_id = b.tenant_id AND i.id = b.instance_id
    WHERE EXISTS (SELECT 1 FROM accepted)
      AND b.tenant_id = $1 AND b.hash = $5 AND b.publishable
      AND ($8::text IS NULL OR i.correlation_id = $8)
      AND ($9::text IS NULL OR b.instance_id = $9)
      AND ($10::text IS NULL OR b.activity_execution_id = $10)
    ORDER BY b.instance_id, b.id
), triggered AS MATERIALIZED (
    SELECT substr(encode(sha256(convert_to(concat_ws('|', $3, extract(epoch FROM r.expires_at),
                                                               t.definition_id, t.activity_id),
                                           'UTF8')), 'hex'), 1, 32) AS instance_id,
           t.activity_id, d.definition_id, d.version_id, d.version, d.activation_strategy,
           CASE WHEN d.activation_strategy > 0 /* always */
               THEN activation_key(d.activation_strategy, d.definition_id, $8) END AS held,
           CASE WHEN d.seeding = 2 /* seed */ THEN raise_activation_unseeded()
                WHEN d.activation_strategy > 0 /* always */
                    THEN activation_blocked($1, d.activation_strategy, d.definition_id, $8)
                ELSE false END AS blocked
    FROM accepted r
    CROSS JOIN trigger t
    JOIN definition d ON d.tenant_id = t.tenant_id AND d.definition_id = t.definition_id AND d.is_published
    WHERE t.tenant_id = $1 AND t.hash = $5 AND $9::text IS NULL AND $10::text IS NULL
), resumed AS (
    INSERT INTO work (tenant_id, instance_id, kind, body)
    SELECT $1, w.instance_id, 2 /* stimulus */,
        json_build_object('bookmarkId', w.id, 'hash', encode($5, 'hex'), 'name', $6::text,
                                                   'payload', $7::json)
    FROM waiting w
    RETURNING 1
), activated AS (
    INSERT INTO activation (tenant_id, key, instance_id, exclusive, strategy, definition_id, correlation_id)
    SELECT $1, g.held, g.instance_id, true, g.activation_strategy, g.definition_id, nullif($8, '')
    FROM triggered g
    WHERE g.held IS NOT NULL AND NOT g.blocked
    ORDER BY g.held, g.activity_id
    ON CONFLICT DO NOTHING
    RETURNING instance_id
), started AS (
    INSERT INTO work (tenant_id, instance_id, kind, definition_id, version_id, definition_version, body)
    SELECT $1, g.instance_id, 0 /* start */, g.definition_id, g.version_id, g.version,
           json_build_object('triggerActivityId', g.activity_id, 'payload', $7::json, 'correlationId', $8::text)
    FROM triggered g
    WHERE g.held IS NULL OR EXISTS (SELECT 1 FROM activated a WHERE a.instance_id = g.instance_id)
    RETURNING instance_id
), kept AS (
    INSERT INTO inbox (tenant_id, hash, name, payload, correlation_id, instance_id, activity_execution_id, expires_at)
    SELECT $1, $5, $6, $7, $8, $9, $10, now() + $11::bigint * interval '1 microsecond'
    FROM accepted
    -- An event whose start is refused has matched its trigger.
    WHERE NOT EXISTS (SELECT 1 FROM waiting) AND NOT EXISTS (SELECT 1 FROM triggered)
    RETURNING 1
)
SELECT (SELECT count(*) FROM accepted) AS accepted, (SELECT count(*) FROM resumed) AS resumed,
       (SELECT count(*) FROM started) AS started, (SELECT count(*) FROM kept) AS kept,
       ARRAY(SELECT g.definition_id FROM triggered g
             WHERE NOT EXISTS (SELECT 1 FROM started s WHERE s.instance_id = g.instance_id)) AS refused
