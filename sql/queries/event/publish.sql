-- purpose: publish an event once: to every bookmark that waits for it, to every published trigger, else into the
--          inbox. If more than $12 bookmarks wait for it, or so many that the copies of its payload take more than $14
--          bytes, or an earlier event for the same is still being fanned out, it becomes a fan-out instead. A start that
--          the activation strategy refuses is not made, and reported; while the strategy is being seeded the statement
--          fails, to be tried again. Without $15 nothing is kept, and no_room is what the caller rolls back. $16 is the trace
--          that the bursts continue; what is kept or fanned out has none
-- caller:  store::event (replays of dead letters, too), in the transaction that holds the stimulus keys
-- index:   idempotency_key_pkey, bookmark_hash or bookmark_correlation or (bookmark_pkey, bookmark_crowded), trigger_hash, definition_published, activation_held
-- locks:   idempotency_key by key, then activation by key, then work, then inbox
-- An event is for one instance (part targeted), else for a correlation id (correlated), else for all (any): a condition
-- on each of them that may be null would use no index. An activity execution names its instance.
WITH accepted AS (
    INSERT INTO idempotency_key (tenant_id, route, key, fingerprint, expires_at)
    VALUES ($1, $2, $3, $4, now() + $13::bigint * interval '1 microsecond')
    ON CONFLICT (tenant_id, route, key) DO UPDATE
        SET fingerprint = excluded.fingerprint, instance_id = excluded.instance_id,
            expires_at = excluded.expires_at
        -- An expired key is replaced, also before it is purged.
        WHERE idempotency_key.expires_at <= now()
    RETURNING expires_at
), direct AS MATERIALIZED (
    SELECT least($12::bigint, greatest(1, $14::bigint / coalesce(pg_column_size($7::json), 1))) AS most
), waiting AS MATERIALIZED (
    SELECT b.instance_id, b.id
--[any or correlated
    FROM bookmark b
--]
--[targeted
    -- Not by the hash, for which any number of other instances may wait, and not by all bookmarks of the instance.
    FROM (SELECT f.* FROM bookmark f WHERE f.instance_id = $9 AND f.id < 'z' AND f.hash || '' = $5
          UNION ALL
          SELECT c.* FROM bookmark c WHERE c.instance_id = $9 AND c.id >= 'z' AND c.hash || '' = $5) b
--]
    WHERE EXISTS (SELECT 1 FROM accepted) AND b.tenant_id = $1 AND b.publishable
--[any
      AND b.hash = $5
--]
--[correlated
      AND b.hash = $5 AND hashtextextended(b.correlation_id, 0) = hashtextextended($8, 0) AND b.correlation_id = $8
--]
--[targeted
      AND ($8::text IS NULL OR b.correlation_id = $8)
--]
      AND ($10::text IS NULL OR b.activity_execution_id = $10)
    LIMIT (SELECT d.most + 1 FROM direct d)
), deferred AS MATERIALIZED (
    INSERT INTO fan_out (tenant_id, hash, name, payload, correlation_id, instance_id, activity_execution_id, expires_at)
    SELECT $1, $5, $6, $7, $8, $9, $10, now() + $11::bigint * interval '1 microsecond'
    FROM accepted
    WHERE (SELECT count(*) FROM waiting) > (SELECT d.most FROM direct d)
       OR EXISTS (SELECT 1 FROM fan_out f
                  WHERE f.hash = $5 AND f.tenant_id = $1 AND f.finished_at IS NULL
                    AND f.correlation_id IS NOT DISTINCT FROM $8 AND f.instance_id IS NOT DISTINCT FROM $9)
    RETURNING id
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
    JOIN trigger t ON NOT EXISTS (SELECT 1 FROM deferred)
    JOIN definition d ON d.tenant_id = t.tenant_id AND d.definition_id = t.definition_id AND d.is_published
    WHERE t.tenant_id = $1 AND t.hash = $5 AND $9::text IS NULL AND $10::text IS NULL
), resumed AS (
    INSERT INTO work (tenant_id, instance_id, kind, body)
    SELECT $1, w.instance_id, 2 /* stimulus */,
        CASE WHEN $16::text IS NULL
            THEN json_build_object('bookmarkId', w.id, 'hash', encode($5, 'hex'), 'name', $6::text,
                                   'payload', $7::json)
            ELSE json_build_object('bookmarkId', w.id, 'hash', encode($5, 'hex'), 'name', $6::text,
                                   'payload', $7::json, 'trace', $16::text)
        END
    FROM waiting w
    WHERE NOT EXISTS (SELECT 1 FROM deferred)
    ORDER BY w.instance_id, w.id
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
           CASE WHEN $16::text IS NULL
               THEN json_build_object('triggerActivityId', g.activity_id, 'payload', $7::json,
                                      'correlationId', $8::text)
               ELSE json_build_object('triggerActivityId', g.activity_id, 'payload', $7::json,
                                      'correlationId', $8::text, 'trace', $16::text)
           END
    FROM triggered g
    WHERE g.held IS NULL OR EXISTS (SELECT 1 FROM activated a WHERE a.instance_id = g.instance_id)
    RETURNING instance_id
), kept AS (
    INSERT INTO inbox (tenant_id, hash, name, payload, correlation_id, instance_id, activity_execution_id, expires_at)
    SELECT $1, $5, $6, $7, $8, $9, $10, now() + $11::bigint * interval '1 microsecond'
    FROM accepted
    -- An event whose start is refused has matched its trigger.
    WHERE NOT EXISTS (SELECT 1 FROM waiting) AND NOT EXISTS (SELECT 1 FROM triggered)
      AND NOT EXISTS (SELECT 1 FROM deferred) AND $15::boolean
    RETURNING 1
)
SELECT (SELECT count(*) FROM accepted) AS accepted, (SELECT count(*) FROM resumed) AS resumed,
       (SELECT count(*) FROM started) AS started, (SELECT count(*) FROM kept) AS kept,
       (SELECT d.id FROM deferred d) AS fan_out,
       NOT $15::boolean AND EXISTS (SELECT 1 FROM accepted) AND NOT EXISTS (SELECT 1 FROM waiting)
           AND NOT EXISTS (SELECT 1 FROM triggered) AND NOT EXISTS (SELECT 1 FROM deferred) AS no_room,
       ARRAY(SELECT g.definition_id FROM triggered g
             WHERE NOT EXISTS (SELECT 1 FROM started s WHERE s.instance_id = g.instance_id)) AS refused
-- While the cluster is paused the statement fails.
FROM cluster_pause p
WHERE p.only_row AND CASE p.mode WHEN 0 /* running */ THEN true ELSE raise_paused(p.reason) END
