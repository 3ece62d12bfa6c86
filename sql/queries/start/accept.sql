-- purpose: accept starts durably, resolving the version that is published at this moment; those that a worker of this
--          node waits for are born claimed. A start that its version's activation strategy refuses writes nothing, nor
--          does one under a strategy that was published so recently that what counts is not known yet
-- caller:  store::start, in the forms that it names: a start of a workflow that has a strategy, or just had one, is told
--          apart where none is asked for, and not made
-- index:   definition_published, instance_pkey, idempotency_key_pkey, work_start, activation_held
-- locks:   request by key, then activation by key, then work
-- Without EXISTS: that may be made a hash of all starts there are, dead ones with them.
WITH wanted AS MATERIALIZED (
    SELECT s.no, s.tenant_id, s.instance_id, s.definition_id, s.body, s.claimed, d.version_id, d.version,
--[asked
           -- What is born claimed has an id that was made for it.
           NOT s.claimed AND
           coalesce((SELECT true FROM instance i WHERE i.tenant_id = s.tenant_id AND i.id = s.instance_id LIMIT 1),
                    (SELECT true FROM work w WHERE w.tenant_id = s.tenant_id AND w.instance_id = s.instance_id
                     AND w.kind = 0 /* start */ AND w.definition_id IS NOT NULL LIMIT 1),
                    false) AS taken,
           s.route, s.key, s.fingerprint, d.activation_strategy,
           CASE WHEN d.activation_strategy > 0 /* always */ THEN activation_key(d.activation_strategy, s.definition_id, s.body->>'correlationId')
           END AS held,
           d.seeding = 2 /* seed */ AS unseeded,
           CASE WHEN d.seeding = 2 /* seed */ THEN true
                WHEN d.activation_strategy > 0 /* always */
                THEN activation_blocked(s.tenant_id, d.activation_strategy, s.definition_id, s.body->>'correlationId')
                ELSE false END AS blocked,
           false AS strict
--]
--[unasked
           CASE WHEN d.activation_strategy = 0 /* always */ AND d.seeding = 0 /* done */
--]
--[unasked and unclaimed
                 AND (s.claimed
                      OR coalesce((SELECT false FROM instance i
                                   WHERE i.tenant_id = s.tenant_id AND i.id = s.instance_id LIMIT 1),
                                  (SELECT false FROM work w
                                   WHERE w.tenant_id = s.tenant_id AND w.instance_id = s.instance_id
                                     AND w.kind = 0 /* start */ AND w.definition_id IS NOT NULL LIMIT 1),
                                  true))
--]
--[unasked
                -- The number of its row: so what was made need not be joined to what was asked for.
                THEN nextval('work_id_seq') END AS id,
           (d.activation_strategy > 0 /* always */ OR d.seeding > 0 /* done */) AS strict
--]
--[own
    FROM unnest($2::start_request[]) s
--]
--[lent
    -- As a subquery no plan counts them, and the server makes one for all batches where the connection was not told to.
    FROM unnest((SELECT $2::start_request[])) s
--]
    LEFT JOIN definition d
        ON d.tenant_id = s.tenant_id AND d.definition_id = s.definition_id AND d.is_published
--[asked
), remembered AS (
    INSERT INTO idempotency_key (tenant_id, route, key, fingerprint, instance_id)
    SELECT w.tenant_id, w.route, w.key, w.fingerprint, w.instance_id
    FROM wanted w
    WHERE w.key IS NOT NULL AND w.version_id IS NOT NULL AND NOT w.taken AND NOT w.blocked
    ORDER BY w.tenant_id, w.route, w.key
    ON CONFLICT (tenant_id, route, key) DO UPDATE
        SET fingerprint = excluded.fingerprint, instance_id = excluded.instance_id,
            expires_at = excluded.expires_at
        -- A key whose time is over stands for nothing, also before it is swept.
        WHERE idempotency_key.expires_at <= now()
    RETURNING tenant_id, route, key
), fresh AS (
    SELECT w.*
    FROM wanted w
    LEFT JOIN remembered r ON r.tenant_id = w.tenant_id AND r.route = w.route AND r.key = w.key
    WHERE w.version_id IS NOT NULL AND NOT w.taken AND NOT w.blocked AND (w.key IS NULL OR r.key IS NOT NULL)
), activated AS (
    INSERT INTO activation (tenant_id, key, instance_id, exclusive, strategy, definition_id, correlation_id)
    SELECT f.tenant_id, f.held, f.instance_id, true, f.activation_strategy, f.definition_id,
           nullif(f.body->>'correlationId', '')
    FROM fresh f
    WHERE f.held IS NOT NULL
    ORDER BY f.tenant_id, f.held, f.no
    -- A rival that holds the key since our snapshot, or a start before us in this batch.
    ON CONFLICT DO NOTHING
    RETURNING tenant_id, instance_id
), made AS (
    INSERT INTO work (tenant_id, instance_id, kind, definition_id, version_id, definition_version, body, claimed_by,
                      claim_no)
    SELECT f.tenant_id, f.instance_id, 0 /* start */, f.definition_id, f.version_id, f.version, f.body,
           CASE WHEN f.claimed THEN $1::bigint END, CASE WHEN f.claimed THEN 1 ELSE 0 END
    FROM fresh f
    LEFT JOIN activated a ON a.tenant_id = f.tenant_id AND a.instance_id = f.instance_id
    WHERE f.held IS NULL OR a.instance_id IS NOT NULL
    ORDER BY f.tenant_id, f.instance_id
    -- A rival that took the id since our snapshot fails the statement, and our key with it: the batch is halved until this
    -- start stands alone, and is told that its id is taken.
    RETURNING tenant_id, instance_id, id
)
SELECT w.no, w.version_id, w.version, m.id, now() AS accepted_at, w.strict
       , w.blocked OR (f.no IS NOT NULL AND m.id IS NULL
                       -- Its idempotency key was just written, and would stand for a start that is none: it goes again.
                       AND (w.key IS NULL OR withdraw_idempotency_key(w.tenant_id, w.route, w.key))) AS cannot_start
       , coalesce(w.unseeded, false) AS unseeded
--]
--[chosen
       -- In a newer snapshot, as the row is in: an instance that came and went on since ours fails the statement.
       , CASE WHEN m.id IS NOT NULL AND NOT w.claimed THEN raise_if_instance_exists(w.tenant_id, w.instance_id) END AS late
--]
--[asked
FROM wanted w
LEFT JOIN fresh f ON f.no = w.no
LEFT JOIN made m ON m.tenant_id = w.tenant_id AND m.instance_id = w.instance_id
--]
--[unasked
), made AS (
    INSERT INTO work (tenant_id, id, instance_id, kind, definition_id, version_id, definition_version, body, claimed_by,
                      claim_no) OVERRIDING SYSTEM VALUE
    SELECT w.tenant_id, w.id, w.instance_id, 0 /* start */, w.definition_id, w.version_id, w.version, w.body,
           CASE WHEN w.claimed THEN $1::bigint END, CASE WHEN w.claimed THEN 1 ELSE 0 END
    FROM wanted w
    WHERE w.id IS NOT NULL
--]
--[unasked and unclaimed
    ORDER BY w.tenant_id, w.instance_id
--]
--[unasked
)
SELECT w.no, w.version_id, w.version, w.id, now() AS accepted_at, coalesce(w.strict, false) AS strict
FROM wanted w
--]
--[relaxed
-- Whoever asked is answered after a later commit, which is flushed, and this with it.
WHERE (SELECT set_config('synchronous_commit', 'off', true)) IS NOT NULL
--]
