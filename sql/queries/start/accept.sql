-- purpose: accept starts, in the version that is published now or that they name; those that a worker of this node runs at once
--          are inserted with a claim. A start that the activation strategy refuses writes nothing, nor does one whose strategy
--          is still being seeded, nor one that was checked for another version, nor one of a request whose route has moved. While
--          the cluster is paused the statement fails
-- caller:  store::start::form, in the forms of StartForm: in the shorter ones a start of a workflow with a strategy, or whose
--          strategy is being seeded, is reported as strict and not accepted
-- index:   definition_published, trigger_hash, instance_pkey, idempotency_key_pkey, work_instance, activation_held
-- locks:   idempotency_key by key, then activation by key, then work; last, for starts that are not claimed, the lock of an
--          import of their id (shared)
-- Without EXISTS, whose plan may hash all starts, dead ones included.
WITH wanted AS MATERIALIZED (
    SELECT s.no, s.tenant_id, s.instance_id, s.definition_id, s.body, s.claimed, d.version_id, d.version,
--[checked
           -- The id of a start that is inserted with a claim was generated for it.
           NOT s.claimed AND
           coalesce((SELECT true FROM instance i WHERE i.tenant_id = s.tenant_id AND i.id = s.instance_id LIMIT 1),
                    (SELECT true FROM work w WHERE w.tenant_id = s.tenant_id AND w.instance_id = s.instance_id
                     AND w.kind = 0 /* start */ AND work_order(w.id, w.definition_id) = 0 LIMIT 1),
                    false) AS taken,
           s.route, s.key, s.fingerprint, s.origin, d.activation_strategy,
           CASE WHEN d.activation_strategy > 0 /* always */
               THEN activation_key(d.activation_strategy, s.definition_id, s.body->>'correlationId')
           END AS held,
           d.seeding = 2 /* seed */ AS unseeded,
           CASE WHEN d.seeding = 2 /* seed */ OR s.checked_version <> d.version_id THEN true
                WHEN d.activation_strategy > 0 /* always */
                THEN activation_blocked(s.tenant_id, d.activation_strategy, s.definition_id, s.body->>'correlationId')
                ELSE false END AS blocked,
           false AS strict
--]
--[unchecked
           CASE WHEN d.activation_strategy = 0 /* always */ AND d.seeding = 0 /* done */
                 AND coalesce(s.checked_version = d.version_id, true)
--]
--[unchecked and routed
                 AND m.moved IS NULL
--]
--[unchecked and unclaimed
                 AND (s.claimed
                      OR coalesce((SELECT false FROM instance i
                                   WHERE i.tenant_id = s.tenant_id AND i.id = s.instance_id LIMIT 1),
                                  (SELECT false FROM work w
                                   WHERE w.tenant_id = s.tenant_id AND w.instance_id = s.instance_id
                                     AND w.kind = 0 /* start */ AND work_order(w.id, w.definition_id) = 0 LIMIT 1),
                                  true))
--]
--[unchecked
                -- The id of its row, drawn here: the inserted rows need not be joined to the wanted ones.
                THEN nextval('work_id_seq') END AS id,
           s.origin,
           (d.activation_strategy > 0 /* always */ OR d.seeding > 0 /* done */) AS strict
--]
--[routed
           , m.moved IS TRUE AS moved
--]
--[own
    FROM unnest($2::start_request[]) s
--]
--[pooled
    -- As a subquery it has the same estimate for each batch, so that a pooled connection gets a generic plan, too.
    FROM unnest((SELECT $2::start_request[])) s
--]
--[published
    LEFT JOIN definition d
        ON d.tenant_id = s.tenant_id AND d.definition_id = s.definition_id AND d.is_published
--]
--[version
    -- Under the strategy of the published version, if there is one: it counts the instances of all versions.
    LEFT JOIN LATERAL (
        SELECT v.version_id, v.version, coalesce(p.activation_strategy, v.activation_strategy) AS activation_strategy,
               coalesce(p.seeding, v.seeding) AS seeding
        FROM definition v
        LEFT JOIN definition p ON p.tenant_id = v.tenant_id AND p.definition_id = v.definition_id AND p.is_published
        WHERE v.tenant_id = s.tenant_id AND v.definition_id = s.definition_id AND v.deleted_at IS NULL
          AND (v.version_id = s.version_id OR (s.version_id IS NULL AND v.is_published))
        LIMIT 1) d ON true
--]
--[routed
    -- The route of the request is no longer that of the definition, or of its activity, or was published again: its options
    -- were read from another publish.
    LEFT JOIN LATERAL (
        SELECT true AS moved
        WHERE s.trigger_hash IS NOT NULL
          AND (SELECT true FROM trigger t
               WHERE t.definition_id = s.definition_id AND t.activity_id = s.trigger_activity_id
                 AND t.hash = s.trigger_hash AND t.tenant_id = s.tenant_id
                 AND t.revision = s.trigger_revision LIMIT 1) IS NULL) m ON true
--]
    -- Evaluated once, before the first row.
    WHERE (SELECT CASE p.mode WHEN 0 /* running */ THEN true ELSE raise_paused(p.reason) END
           FROM cluster_pause p WHERE p.only_row)
--[checked
), kept_key AS (
    INSERT INTO idempotency_key (tenant_id, route, key, fingerprint, instance_id)
    SELECT w.tenant_id, w.route, w.key, w.fingerprint, w.instance_id
    FROM wanted w
    WHERE w.key IS NOT NULL AND w.version_id IS NOT NULL AND NOT w.taken AND NOT w.blocked AND NOT w.moved
    ORDER BY w.tenant_id, w.route, w.key
    ON CONFLICT (tenant_id, route, key) DO UPDATE
        SET fingerprint = excluded.fingerprint, instance_id = excluded.instance_id,
            expires_at = excluded.expires_at
        -- An expired key is replaced, also before it is purged.
        WHERE idempotency_key.expires_at <= now()
    RETURNING tenant_id, route, key
), fresh AS (
    SELECT w.*
    FROM wanted w
    LEFT JOIN kept_key r ON r.tenant_id = w.tenant_id AND r.route = w.route AND r.key = w.key
    WHERE w.version_id IS NOT NULL AND NOT w.taken AND NOT w.blocked AND NOT w.moved AND (w.key IS NULL OR r.key IS NOT NULL)
), activated AS (
    INSERT INTO activation (tenant_id, key, instance_id, exclusive, strategy, definition_id, correlation_id)
    SELECT f.tenant_id, f.held, f.instance_id, true, f.activation_strategy, f.definition_id,
           nullif(f.body->>'correlationId', '')
    FROM fresh f
    WHERE f.held IS NOT NULL
    ORDER BY f.tenant_id, f.held, f.no
    -- A competing start holds the key since the snapshot, or an earlier start of this batch does.
    ON CONFLICT DO NOTHING
    RETURNING tenant_id, instance_id
), made AS (
    INSERT INTO work (tenant_id, instance_id, kind, definition_id, version_id, definition_version, body, claimed_by,
                      claim_no, has_begun)
    SELECT f.tenant_id, f.instance_id, 0 /* start */, f.definition_id, f.version_id, f.version, f.body,
           CASE WHEN f.claimed THEN $1::bigint END, CASE WHEN f.claimed THEN 1 ELSE 0 END, f.claimed
    FROM fresh f
    LEFT JOIN activated a ON a.tenant_id = f.tenant_id AND a.instance_id = f.instance_id
    WHERE f.held IS NULL OR a.instance_id IS NOT NULL
    ORDER BY f.tenant_id, f.instance_id
    -- A competing start that took the id since the snapshot fails the statement, and with it the idempotency key: the
    -- batch is halved until this start is alone, and its caller gets the error.
    RETURNING tenant_id, instance_id, id
), noted AS (
    INSERT INTO audit (tenant_id, action, outcome, instance_id, client_address, caller_kind, caller_id, caller_name,
                       caller_issuer, method, route, target)
    SELECT w.tenant_id, 1 /* request */, 0 /* accepted */, w.instance_id, (w.origin).client_address, (w.origin).caller_kind,
           (w.origin).caller_id, (w.origin).caller_name, (w.origin).caller_issuer, (w.origin).method, (w.origin).route,
           (w.origin).target
    FROM wanted w
    JOIN made m ON m.tenant_id = w.tenant_id AND m.instance_id = w.instance_id
    WHERE (w.origin).route IS NOT NULL
)
SELECT w.no, w.version_id, w.version, m.id, now() AS accepted_at, w.strict
       , w.blocked OR (f.no IS NOT NULL AND m.id IS NULL
                       -- Its idempotency key was just written, and is withdrawn: there is no start.
                       AND (w.key IS NULL OR withdraw_idempotency_key(w.tenant_id, w.route, w.key))) AS cannot_start
       , coalesce(w.unseeded, false) AS unseeded, w.moved
--]
--[chosen
       -- In a newer snapshot, after the insert: an instance that was committed since ours fails the statement.
       , CASE WHEN m.id IS NOT NULL AND NOT w.claimed THEN raise_if_instance_exists(w.tenant_id, w.instance_id) END AS late
--]
--[checked
FROM wanted w
LEFT JOIN fresh f ON f.no = w.no
LEFT JOIN made m ON m.tenant_id = w.tenant_id AND m.instance_id = w.instance_id
--]
--[unchecked
), made AS (
    INSERT INTO work (tenant_id, id, instance_id, kind, definition_id, version_id, definition_version, body, claimed_by,
                      claim_no, has_begun) OVERRIDING SYSTEM VALUE
    SELECT w.tenant_id, w.id, w.instance_id, 0 /* start */, w.definition_id, w.version_id, w.version, w.body,
           CASE WHEN w.claimed THEN $1::bigint END, CASE WHEN w.claimed THEN 1 ELSE 0 END, w.claimed
    FROM wanted w
    WHERE w.id IS NOT NULL
--]
--[unchecked and unclaimed
    ORDER BY w.tenant_id, w.instance_id
--]
--[unchecked
), noted AS (
    INSERT INTO audit (tenant_id, action, outcome, instance_id, client_address, caller_kind, caller_id, caller_name,
                       caller_issuer, method, route, target)
    SELECT w.tenant_id, 1 /* request */, 0 /* accepted */, w.instance_id, (w.origin).client_address, (w.origin).caller_kind,
           (w.origin).caller_id, (w.origin).caller_name, (w.origin).caller_issuer, (w.origin).method, (w.origin).route,
           (w.origin).target
    FROM wanted w
    WHERE w.id IS NOT NULL AND (w.origin).route IS NOT NULL
)
SELECT w.no, w.version_id, w.version, w.id, now() AS accepted_at, coalesce(w.strict, false) AS strict
--]
--[unchecked and routed
       , w.moved
--]
--[unchecked
FROM wanted w
--]
--[relaxed
-- The caller gets its reply after a later commit, whose flush covers this one.
WHERE (SELECT set_config('synchronous_commit', 'off', true)) IS NOT NULL
--]
