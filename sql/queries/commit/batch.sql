-- purpose: write every burst of a batch whose fences hold, each whole or not at all; returns the winners
-- caller:  store::commit::pipeline (the contended lane runs the same text without SKIP LOCKED)
-- index:   fence_pkey, work_pkey, timer_pkey, instance_pkey, bookmark_pkey, activation_instance, definition_published, definition_correlation, child_pkey, child_parent, child_root, fan_out_begun, http_answer_pkey
-- locks:   fence (key share), then work by id, timer by id, then instance (of an import, the lock of its id); of a single-claim
--          batch burst by burst (the contended lane sends one at a time); then the rows of children that end or are waited for;
--          then dependants of the winners only. Before all, of executed children: claims and instance of the outermost (share)
-- Rows of tables are looked up one by one, in subqueries that the planner cannot flatten, and are updated by ctid: a plan
-- that is made while a table is empty would join it by a walk over a whole index. A row that another transaction changed
-- after the snapshot is not found at the ctid where it is locked, and counts as locked.
-- Two parts are joined by number with `CASE WHEN … IN (…)`, which is hashed; the planner estimates one row for each, and a
-- join would compare every row of one with every row of the other.
-- A batch leaves out the parts between --[name and --] that it has no rows for; see store::commit::statement. Most
-- batches are single-claim: each burst consumes one row of work and nothing else is looked up. Both forms are in this file.
-- coalesce(claimed_by, 0) keeps a plan from walking over all rows that are claimed or due; no incarnation is 0.
WITH fence_held AS MATERIALIZED (
    SELECT 1 FROM fence f WHERE f.incarnation = $1 AND f.writer = $2 FOR KEY SHARE
--[waiting
), missed AS MATERIALIZED (
    -- The keys that the lock statement before did not get; their requests go to the contended lane.
    SELECT DISTINCT k.no FROM unnest($8::commit_key[]) k
    WHERE k.key = ANY (string_to_array(nullif(current_setting('mainspring.missed', true), ''), ',')::integer[])
--]
), request AS (
    SELECT r.* FROM unnest($3::commit_request[]) r WHERE EXISTS (SELECT 1 FROM fence_held)
    --[waiting
      AND NOT EXISTS (SELECT 1 FROM missed m WHERE m.no = r.no)
    --]
--[multi
), work_held AS MATERIALIZED (
    SELECT c.no, c.work_id AS id, l.place
    FROM (SELECT c.no, r.tenant_id, c.work_id, c.claim_no
          FROM unnest($4::commit_claim[]) c JOIN request r ON r.no = c.no WHERE c.work_id IS NOT NULL
          ORDER BY c.work_id) c
    CROSS JOIN LATERAL (
        SELECT w.ctid AS place FROM work w
        WHERE w.id = c.work_id AND w.tenant_id = c.tenant_id AND coalesce(w.claimed_by, 0) = $1 AND w.claim_no = c.claim_no
        FOR UPDATE SKIP LOCKED) l
    WHERE (SELECT true FROM work s WHERE s.ctid = l.place)
--]
--[timed
), timer_held AS MATERIALIZED (
    SELECT c.no, l.place
    FROM (SELECT c.no, r.tenant_id, r.instance_id, c.timer_id, c.claim_no
          FROM unnest($4::commit_claim[]) c JOIN request r ON r.no = c.no WHERE c.timer_id IS NOT NULL
          ORDER BY r.tenant_id, r.instance_id, c.timer_id) c
    CROSS JOIN LATERAL (
        SELECT t.ctid AS place FROM timer t
        WHERE t.instance_id = c.instance_id AND t.id = c.timer_id AND t.tenant_id = c.tenant_id
          AND coalesce(t.claimed_by, 0) = $1 AND t.claim_no = c.claim_no
        FOR UPDATE SKIP LOCKED) l
    WHERE (SELECT true FROM timer s WHERE s.ctid = l.place)
--]
--[burned
), burned AS MATERIALIZED (
    SELECT b.no,
           (SELECT x.ctid FROM bookmark x
            WHERE x.instance_id = r.instance_id AND x.id = b.id AND x.tenant_id = r.tenant_id LIMIT 1) AS place,
           -- A timer that the burst claims is held already, or the burst loses.
           CASE WHEN (b.no, b.id) IN (SELECT c.no, c.timer_id FROM unnest($4::commit_claim[]) c
               WHERE c.timer_id IS NOT NULL)
                THEN NULL
                ELSE (SELECT x.ctid FROM timer x
                      WHERE x.instance_id = r.instance_id AND x.id = b.id AND x.tenant_id = r.tenant_id LIMIT 1)
           END AS timer_place
    FROM unnest($6::commit_burned[]) b JOIN request r ON r.no = b.no
    ORDER BY r.tenant_id, r.instance_id, b.id
), timer_burned AS MATERIALIZED (
    -- The timer of a burned bookmark may be locked elsewhere, as when its claim is being released.
    SELECT b.no, b.timer_place AS place,
           (SELECT t.ctid FROM timer t WHERE t.ctid = b.timer_place FOR UPDATE SKIP LOCKED) = b.timer_place AS held
    FROM burned b WHERE b.timer_place IS NOT NULL
--]
--[nested
), under_work AS MATERIALIZED (
    -- The claims of the burst in which a child ran: still held, and left to it.
    SELECT c.no
    FROM (SELECT c.no, r.tenant_id, c.work_id, c.claim_no FROM unnest($16::commit_claim[]) c JOIN request r ON r.no = c.no
          WHERE c.work_id IS NOT NULL ORDER BY c.work_id) c
    CROSS JOIN LATERAL (
        SELECT w.ctid AS place FROM work w
        WHERE w.id = c.work_id AND w.tenant_id = c.tenant_id AND coalesce(w.claimed_by, 0) = $1 AND w.claim_no = c.claim_no
        FOR SHARE SKIP LOCKED) l
    WHERE (SELECT true FROM work s WHERE s.ctid = l.place)
), under_timer AS MATERIALIZED (
    SELECT c.no
    FROM (SELECT c.no, r.tenant_id, n.root_instance_id, c.timer_id, c.claim_no
          FROM unnest($16::commit_claim[]) c JOIN request r ON r.no = c.no JOIN unnest($15::commit_nested[]) n ON n.no = c.no
          WHERE c.timer_id IS NOT NULL ORDER BY r.tenant_id, n.root_instance_id, c.timer_id) c
    CROSS JOIN LATERAL (
        SELECT t.ctid AS place FROM timer t
        WHERE t.instance_id = c.root_instance_id AND t.id = c.timer_id AND t.tenant_id = c.tenant_id
          AND coalesce(t.claimed_by, 0) = $1 AND t.claim_no = c.claim_no
        FOR SHARE SKIP LOCKED) l
    WHERE (SELECT true FROM timer s WHERE s.ctid = l.place)
), under_instance AS MATERIALIZED (
    SELECT n.no
    FROM (SELECT n.no, r.tenant_id, n.root_instance_id, n.expected
          FROM unnest($15::commit_nested[]) n JOIN request r ON r.no = n.no
          WHERE n.expected > 0 ORDER BY r.tenant_id, n.root_instance_id) n
    CROSS JOIN LATERAL (
        SELECT i.ctid AS place FROM instance i
        WHERE i.id = n.root_instance_id AND i.tenant_id = n.tenant_id AND i.version = n.expected FOR SHARE SKIP LOCKED) l
    WHERE (SELECT true FROM instance s WHERE s.ctid = l.place)
), under_lost AS MATERIALIZED (
    SELECT n.no FROM unnest($15::commit_nested[]) n
    WHERE CASE WHEN (n.no, n.claims::bigint) IN (
                   SELECT u.no, count(*) FROM (SELECT no FROM under_work UNION ALL SELECT no FROM under_timer) u GROUP BY u.no)
               THEN n.expected > 0 AND CASE WHEN n.no IN (SELECT i.no FROM under_instance i) THEN false ELSE true END
               ELSE true END
--]
--[family
), child_held AS MATERIALIZED (
    -- Of a child that ends. Another transaction may hold it or have changed it, as a dead letter of the child does.
    SELECT e.no, e.ends, e.result, c.tenant_id, c.parent_instance_id, c.parent_generation, c.bookmark_id, c.place,
           (SELECT x.ctid FROM child x WHERE x.ctid = c.place FOR UPDATE SKIP LOCKED) = c.place AS held
    FROM (SELECT n.no, n.ends, n.result, r.tenant_id, r.instance_id
          FROM unnest($14::commit_child_end[]) n JOIN request r ON r.no = n.no
          ORDER BY r.tenant_id, r.instance_id) e
    CROSS JOIN LATERAL (
        SELECT y.tenant_id, y.parent_instance_id, y.parent_generation, y.bookmark_id, y.ctid AS place FROM child y
        WHERE y.id = e.instance_id AND y.tenant_id = e.tenant_id LIMIT 1) c
), child_awaited AS MATERIALIZED (
    -- Children to wait for. One whose own commit is in this batch counts as locked: a statement changes a row once.
    SELECT a.no, a.child_id, a.bookmark_id, c.place, c.given_up,
           c.given_up OR (a.until_rest AND c.rested) AS is_over,
           CASE WHEN c.place IS NULL THEN true
                WHEN c.place IN (SELECT h.place FROM child_held h) THEN false
                ELSE (SELECT x.ctid FROM child x WHERE x.ctid = c.place FOR UPDATE SKIP LOCKED) = c.place END AS held
    FROM (SELECT n.no, n.child_id, n.bookmark_id, n.until_rest, r.tenant_id
          FROM unnest($17::commit_awaited[]) n JOIN request r ON r.no = n.no ORDER BY r.tenant_id, n.child_id) a
    LEFT JOIN LATERAL (
        SELECT y.ctid AS place, y.rested, y.given_up FROM child y
        WHERE y.id = a.child_id AND y.tenant_id = a.tenant_id LIMIT 1) c ON true
--]
--[multi
), held AS (
    SELECT h.no, count(*) AS claims FROM (SELECT no FROM work_held
--]
--[timed
          UNION ALL SELECT no FROM timer_held
--]
--[multi
         ) h
    GROUP BY h.no
), eligible AS (
    SELECT r.* FROM request r LEFT JOIN held h ON h.no = r.no WHERE coalesce(h.claims, 0) = r.claims
--]
--[burned
      AND CASE WHEN r.no IN (SELECT b.no FROM timer_burned b WHERE b.held IS NOT TRUE) THEN false ELSE true END
--]
--[family
      AND CASE WHEN r.no IN (SELECT c.no FROM child_held c WHERE c.held IS NOT TRUE) THEN false ELSE true END
      AND CASE WHEN r.no IN (SELECT c.no FROM child_awaited c WHERE c.held IS NOT TRUE) THEN false ELSE true END
--]
--[nested
      AND CASE WHEN r.no IN (SELECT u.no FROM under_lost u) THEN false ELSE true END
--]
), winner AS MATERIALIZED (
    SELECT e.*
           --[single
           , h.place AS work_place
           --]
           --[existing
           , l.place, l.created_at, l.updated_at
           --]
           --[new
           , NULL::timestamptz AS created_at, NULL::timestamptz AS updated_at
           --]
    --[single
    -- In no order: locked rows are skipped, and a contended request is alone.
    FROM request e
    CROSS JOIN LATERAL (
        SELECT w.ctid AS place FROM work w
        WHERE w.id = e.work_id AND w.tenant_id = e.tenant_id AND coalesce(w.claimed_by, 0) = $1 AND w.claim_no = e.claim_no
        FOR UPDATE SKIP LOCKED) h
    --]
    --[multi
    FROM eligible e
    --]
    --[existing
    LEFT JOIN LATERAL (
        SELECT i.ctid AS place, i.created_at, i.updated_at FROM instance i
        WHERE e.expected > 0 AND i.id = e.instance_id AND i.tenant_id = e.tenant_id AND i.version = e.expected
        FOR NO KEY UPDATE SKIP LOCKED) l ON true
    --]
    WHERE true
    --[single
      AND (SELECT true FROM work s WHERE s.ctid = h.place)
    --]
    --[multi
      -- An import has no claim that keeps a start from its id.
      AND CASE WHEN e.expected = 0 AND e.claims = 0 AND e.parent_instance_id IS NULL
               THEN NOT raise_if_start_exists(e.tenant_id, e.instance_id) ELSE true END
    --]
    --[single
      -- The activation keys of an instance that ends are deleted in the multi-claim form, in which it is sent again.
      AND CASE WHEN e.status = 1 /* finished */
               THEN (SELECT true FROM activation a
                     WHERE a.instance_id = e.instance_id AND a.tenant_id = e.tenant_id LIMIT 1) IS NULL
               ELSE true END
    --]
    --[existing
      AND (e.expected = 0 OR (SELECT true FROM instance s WHERE s.ctid = l.place))
--]
--[existing
), updated AS (
    UPDATE instance i SET version = i.version + 1, last_burst = w.burst, status = w.status, sub_status = w.sub_status,
        correlation_id = w.correlation_id, name = w.name, incident_count = w.incident_count, state = w.state,
        -- Records lie between the two times of their instance, also after the clock was stepped back.
        updated_at = greatest(i.updated_at + interval '1 microsecond', now()),
        finished_at = CASE WHEN w.status = 1 /* finished */ THEN coalesce(i.finished_at, now()) END
    FROM winner w WHERE i.ctid = w.place
--]
), inserted AS (
    INSERT INTO instance (tenant_id, id, definition_id, version_id, definition_version, status, sub_status, version,
                          last_burst, correlation_id, name, incident_count, state, finished_at, parent_instance_id)
    SELECT w.tenant_id, w.instance_id, w.definition_id, w.version_id, w.definition_version, w.status, w.sub_status, 1,
           w.burst, w.correlation_id, w.name, w.incident_count, w.state,
           CASE WHEN w.status = 1 /* finished */ THEN now() END, w.parent_instance_id FROM winner w
    -- An id that is taken fails the batch, which is split until that request is alone. ON CONFLICT would look each row up,
    -- and write it in two steps.
    WHERE w.expected = 0
--[multi
    -- In a single-claim batch the claim on the start keeps other transactions from the id.
    ORDER BY w.tenant_id, w.instance_id
--]
), work_done AS (
--[single
    DELETE FROM work x USING winner w WHERE x.ctid = w.work_place
--]
--[single and continuing
      AND NOT w.continues
--]
--[multi
    DELETE FROM work x USING work_held h WHERE x.ctid = h.place
      AND CASE WHEN h.no IN (SELECT w.no FROM winner w) THEN true ELSE false END
--]
--[multi and continuing
      AND CASE WHEN h.id IN (SELECT w.work_id FROM winner w WHERE w.continues AND w.work_id IS NOT NULL) THEN false ELSE true END
--]
--[timed or burned
), timer_done AS (
    DELETE FROM timer x
    USING (
--]
--[timed
           SELECT no, place FROM timer_held
--]
--[timed and burned
           UNION ALL
--]
--[burned
           SELECT no, place FROM timer_burned
--]
--[timed or burned
          ) h
    WHERE x.ctid = h.place
      AND CASE WHEN h.no IN (SELECT w.no FROM winner w) THEN true ELSE false END
--]
--[burned or rare and existing
), owed_made AS (
    -- Of bookmarks that end, or change their correlation id, while a fan-out that fits them is on its way to them. The end of an
    -- instance ends its claim.
    INSERT INTO fan_out_owed (fan_out, number, tenant_id, instance_id, instance_created_at, bookmark_id, activity_execution_id)
    SELECT f.id, x.number, x.tenant_id, x.instance_id, (SELECT i.created_at FROM instance i
           WHERE i.id = x.instance_id AND i.tenant_id = x.tenant_id LIMIT 1), x.id, x.activity_execution_id
    FROM (
--]
--[burned
          SELECT b.no, b.place FROM burned b
--]
--[burned and rare
          UNION ALL
--]
--[rare and existing
          SELECT u.no, (SELECT k.ctid FROM bookmark k
                        WHERE k.instance_id = v.instance_id AND k.id = u.id AND k.tenant_id = v.tenant_id LIMIT 1)
          FROM unnest($11::commit_burned[]) u JOIN winner v ON v.no = u.no
--]
--[burned or rare and existing
         ) p (no, place)
    CROSS JOIN LATERAL (SELECT k.* FROM bookmark k WHERE k.ctid = p.place AND k.publishable OFFSET 0) x
    CROSS JOIN LATERAL (
        SELECT o.id FROM fan_out o
        WHERE o.hash = x.hash AND o.tenant_id = x.tenant_id AND o.cut IS NOT NULL AND o.finished_at IS NULL
          AND x.number > o.cursor AND x.number <= o.cut
          AND coalesce(o.correlation_id = x.correlation_id, o.correlation_id IS NULL)
          AND coalesce(o.instance_id = x.instance_id, o.instance_id IS NULL)
          AND coalesce(o.activity_execution_id = x.activity_execution_id, o.activity_execution_id IS NULL)
        OFFSET 0) f
    WHERE CASE WHEN p.no IN (SELECT w.no FROM winner w WHERE w.status = 0 /* running */) THEN true ELSE false END
    ON CONFLICT DO NOTHING
--]
--[burned
), bookmark_burned AS (
    DELETE FROM bookmark x USING burned b WHERE x.ctid = b.place
      AND CASE WHEN b.no IN (SELECT w.no FROM winner w) THEN true ELSE false END
--]
--[burned and waiting
), number_kept AS MATERIALIZED (
    -- Of the burned bookmarks with the hash of a new one of their burst, the first keeps its number for the first.
    SELECT b.no, x.hash, x.number, row_number() OVER (PARTITION BY b.no, x.hash ORDER BY x.number) AS place
    FROM burned b
    CROSS JOIN LATERAL (SELECT k.hash, k.number FROM bookmark k WHERE k.ctid = b.place AND k.publishable) x
--]
--[waiting
), bookmark_made AS (
    INSERT INTO bookmark (tenant_id, instance_id, id, number, activity_id, node_id, activity_execution_id, name, hash,
                          payload, publishable, correlation_id)
    SELECT w.tenant_id, w.instance_id, b.id,
           --[burned and waiting
           coalesce(
               CASE WHEN (b.no, b.hash) IN (SELECT k.no, k.hash FROM number_kept k)
                    THEN (SELECT k.number FROM number_kept k
                          WHERE k.no = b.no AND k.hash = b.hash AND k.place = b.place) END,
           --]
           --[waiting
               nextval('bookmark_number')
           --]
           --[burned and waiting
           )
           --]
           --[waiting
           , b.activity_id, b.node_id, b.activity_execution_id, b.name, b.hash, b.payload, b.publishable,
           w.correlation_id
    FROM (SELECT n.*
           --]
           --[burned and waiting
                 , row_number() OVER (PARTITION BY n.no, n.hash ORDER BY n.id) AS place
           --]
           --[waiting
          FROM unnest($5::commit_bookmark[]) n) b
    JOIN winner w ON w.no = b.no
), timer_made AS (
    INSERT INTO timer (tenant_id, instance_id, id, due, available_at)
    SELECT w.tenant_id, w.instance_id, b.id, now() + b.delay * interval '1 microsecond',
           now() + b.delay * interval '1 microsecond'
    FROM unnest($5::commit_bookmark[]) b JOIN winner w ON w.no = b.no WHERE b.delay IS NOT NULL
    UNION ALL
    -- A time that has passed is due from now on, and not before older work.
    SELECT w.tenant_id, w.instance_id, d.id, d.due, greatest(d.due, now())
    FROM unnest($10::commit_due[]) d JOIN winner w ON w.no = d.no
), inbox_made AS (
    INSERT INTO inbox (tenant_id, hash, name, payload, instance_id, expires_at)
    SELECT w.tenant_id, s.hash, s.name, s.payload, w.instance_id, now() + s.lifetime * interval '1 microsecond'
    FROM unnest($7::commit_stimulus[]) s JOIN winner w ON w.no = s.no
--]
--[multi
), activation_freed AS (
    -- The end of an instance, or another correlation id, deletes its keys.
    DELETE FROM activation a
    USING (SELECT k.place FROM winner w
           CROSS JOIN LATERAL (
               SELECT x.ctid AS place FROM activation x
               WHERE x.instance_id = w.instance_id AND x.tenant_id = w.tenant_id
                 AND (w.status = 1 /* finished */ OR (x.strategy >= 2 /* correlated singleton */
                     AND x.correlation_id IS DISTINCT FROM nullif(w.correlation_id, '')))
               OFFSET 0) k
           WHERE w.status = 1 /* finished */ OR w.correlation_id IS NOT NULL) d
    WHERE a.ctid = d.place
    RETURNING a.tenant_id, a.instance_id, a.strategy
--]
--[rare
), activation_shared AS (
    -- An instance with a correlation id counts for published strategies that compare it.
    INSERT INTO activation (tenant_id, key, instance_id, exclusive, strategy, definition_id, correlation_id)
    SELECT s.tenant_id, activation_key(s.strategy, s.definition_id, s.correlation_id), s.instance_id, false, s.strategy,
           s.definition_id, nullif(s.correlation_id, '')
    FROM (SELECT w.*, 2::smallint /* correlated singleton */ AS strategy
          FROM winner w WHERE w.status = 0 /* running */ AND w.correlation_id IS NOT NULL AND NOT w.retried
            AND EXISTS (SELECT 1 FROM definition d
                        WHERE d.tenant_id = w.tenant_id AND d.definition_id = w.definition_id AND d.is_published
                          AND d.activation_strategy = 2 /* correlated singleton */)
          UNION ALL
          SELECT w.*, 3::smallint /* correlation */
          FROM winner w WHERE w.status = 0 /* running */ AND w.correlation_id <> '' AND NOT w.retried
            AND EXISTS (SELECT 1 FROM definition d
                        WHERE d.tenant_id = w.tenant_id AND d.is_published
                            AND d.activation_strategy = 3 /* correlation */)
          UNION ALL
          -- Without a start, as by an import, nothing has taken the key of a strategy that was published a moment ago.
          SELECT w.*, 1::smallint /* singleton */
          FROM winner w WHERE w.status = 0 /* running */ AND w.expected = 0 AND w.claims = 0
            AND EXISTS (SELECT 1 FROM definition d
                        WHERE d.tenant_id = w.tenant_id AND d.definition_id = w.definition_id AND d.is_published
                          AND d.activation_strategy = 1 /* singleton */)) s
    ORDER BY s.instance_id, s.strategy
    ON CONFLICT DO NOTHING
), bookmark_moved AS (
    -- Bookmarks that stay follow the correlation id of their instance.
    UPDATE bookmark x SET correlation_id = m.correlation_id
    FROM (SELECT w.correlation_id,
                 (SELECT k.ctid FROM bookmark k
                  WHERE k.instance_id = w.instance_id AND k.id = b.id AND k.tenant_id = w.tenant_id LIMIT 1) AS place
          FROM unnest($11::commit_burned[]) b JOIN winner w ON w.no = b.no
          OFFSET 0) m
    WHERE x.ctid = m.place
), event_made AS (
    -- What a workflow publishes takes its turn after this commit, which holds no keys of a publisher. The ids have the order
    -- of the events.
    INSERT INTO fan_out (tenant_id, hash, name, payload, correlation_id, instance_id, expires_at)
    SELECT w.tenant_id, p.hash, p.name, p.payload, p.correlation_id, CASE WHEN p.is_local THEN w.instance_id END,
           now() + p.lifetime * interval '1 microsecond'
    FROM unnest($12::commit_event[]) WITH ORDINALITY p(no, hash, name, payload, correlation_id, is_local, lifetime, place)
    JOIN winner w ON w.no = p.no
    ORDER BY p.place
), unmatched_noted AS (
    INSERT INTO unmatched_work (tenant_id, work_id)
    SELECT w.tenant_id, u.work_id FROM unnest($9::commit_claim[]) u JOIN winner w ON w.no = u.no
), answer_kept AS (
    -- A key that is used again after it expired replaces what was kept for its request.
    INSERT INTO http_answer (request_id, tenant_id, instance_id, outcome, status, headers, body)
    SELECT a.request_id, w.tenant_id, w.instance_id, a.outcome, a.status, a.headers, a.body
    FROM unnest($18::commit_answer[]) a JOIN winner w ON w.no = a.no
    ORDER BY a.request_id
    ON CONFLICT (request_id) DO UPDATE
        SET tenant_id = excluded.tenant_id, instance_id = excluded.instance_id, outcome = excluded.outcome,
            status = excluded.status, headers = excluded.headers, body = excluded.body, created_at = excluded.created_at,
            expires_at = excluded.expires_at
--]
--[nested
), child_lives AS (
    -- A child that ran in the burst of its parent, and did not end there.
    INSERT INTO child (tenant_id, id, parent_instance_id, parent_generation, root_instance_id, rested)
    SELECT w.tenant_id, w.instance_id, w.parent_instance_id, 0, nullif(n.root_instance_id, w.parent_instance_id), NOT n.continues
    FROM unnest($15::commit_nested[]) n JOIN winner w ON w.no = n.no WHERE n.lives
), child_goes_on AS (
    INSERT INTO work (tenant_id, instance_id, kind, body)
    SELECT w.tenant_id, w.instance_id, 4 /* continue */, '{}'
    FROM unnest($15::commit_nested[]) n JOIN winner w ON w.no = n.no WHERE n.continues
--]
--[family
), child_ended AS (
    DELETE FROM child x USING child_held h WHERE x.ctid = h.place AND h.ends
      AND CASE WHEN h.no IN (SELECT w.no FROM winner w) THEN true ELSE false END
), child_rested AS (
    -- It waits for something, and its parent for it no longer.
    UPDATE child x SET bookmark_id = NULL, rested = true
    FROM child_held h WHERE x.ctid = h.place AND NOT h.ends
      AND CASE WHEN h.no IN (SELECT w.no FROM winner w) THEN true ELSE false END
), parent_woken AS (
    INSERT INTO work (tenant_id, instance_id, kind, body)
    SELECT h.tenant_id, h.parent_instance_id, 7 /* child end */, child_end(h.bookmark_id, h.parent_generation, h.result)
    FROM child_held h WHERE h.bookmark_id IS NOT NULL
      AND CASE WHEN h.no IN (SELECT w.no FROM winner w) THEN true ELSE false END
      AND (SELECT true FROM instance p
           WHERE p.id = h.parent_instance_id AND p.tenant_id = h.tenant_id AND p.status = 0 /* running */ LIMIT 1)
), awaited AS MATERIALIZED (
    SELECT a.*, w.tenant_id, w.instance_id, (extract(epoch FROM coalesce(w.created_at, now())) * 1000000)::bigint AS generation
    FROM child_awaited a JOIN winner w ON w.no = a.no
), child_bound AS (
    UPDATE child x SET bookmark_id = a.bookmark_id, parent_generation = a.generation
    FROM awaited a WHERE x.ctid = a.place AND NOT a.is_over
), parent_goes_on AS (
    -- There is nothing left to wait for: the child has ended since its commit, or come to rest.
    INSERT INTO work (tenant_id, instance_id, kind, body)
    SELECT a.tenant_id, a.instance_id, 7 /* child end */, child_end(a.bookmark_id, a.generation,
               CASE WHEN a.given_up
                    THEN child_result(a.child_id, 'Faulted', 'the instance ' || a.child_id || ' has a dead letter')
                    ELSE coalesce((SELECT child_so_far(i) FROM instance i
                                   WHERE i.id = a.child_id AND i.tenant_id = a.tenant_id LIMIT 1),
                                  child_result(a.child_id, 'Faulted', 'the instance ' || a.child_id || ' was deleted')) END)
    FROM awaited a WHERE a.place IS NULL OR a.is_over
), child_wanted AS MATERIALIZED (
    SELECT w.no, w.tenant_id, w.instance_id AS parent_instance_id, n.place, n.id, n.definition_id, n.correlation_id, n.body,
           n.bookmark_id, d.version_id, d.version, d.activation_strategy,
           CASE WHEN d.activation_strategy > 0 /* always */
                THEN activation_key(d.activation_strategy, n.definition_id, n.correlation_id) END AS held,
           CASE WHEN d.seeding = 2 /* seed */ THEN raise_activation_unseeded()
                WHEN d.activation_strategy > 0 /* always */
                THEN activation_blocked(w.tenant_id, d.activation_strategy, n.definition_id, n.correlation_id)
                ELSE false END AS blocked,
           (extract(epoch FROM coalesce(w.created_at, now())) * 1000000)::bigint AS generation
    FROM unnest($13::commit_child[]) WITH ORDINALITY n(no, id, definition_id, correlation_id, body, bookmark_id, place)
    JOIN winner w ON w.no = n.no
    LEFT JOIN LATERAL (
        SELECT v.version_id, v.version, v.activation_strategy, v.seeding FROM definition v
        WHERE v.tenant_id = w.tenant_id AND v.definition_id = n.definition_id AND v.is_published LIMIT 1) d ON true
), child_activated AS (
    INSERT INTO activation (tenant_id, key, instance_id, exclusive, strategy, definition_id, correlation_id)
    SELECT c.tenant_id, c.held, c.id, true, c.activation_strategy, c.definition_id, nullif(c.correlation_id, '')
    FROM child_wanted c WHERE c.held IS NOT NULL AND NOT c.blocked
    ORDER BY c.tenant_id, c.held, c.place
    ON CONFLICT DO NOTHING
    RETURNING tenant_id, instance_id
), child_started AS (
    INSERT INTO work (tenant_id, instance_id, kind, definition_id, version_id, definition_version, body)
    SELECT c.tenant_id, c.id, 0 /* start */, c.definition_id, c.version_id, c.version, c.body
    FROM child_wanted c WHERE c.version_id IS NOT NULL AND NOT c.blocked
      AND (c.held IS NULL OR (c.tenant_id, c.id) IN (SELECT a.tenant_id, a.instance_id FROM child_activated a))
    ORDER BY c.place
    RETURNING tenant_id, instance_id
), child_made AS (
    INSERT INTO child (tenant_id, id, parent_instance_id, parent_generation, bookmark_id)
    SELECT c.tenant_id, c.id, c.parent_instance_id, c.generation, c.bookmark_id
    FROM child_wanted c WHERE (c.tenant_id, c.id) IN (SELECT s.tenant_id, s.instance_id FROM child_started s)
    ORDER BY c.place
), child_refused AS (
    -- It counts as faulted.
    INSERT INTO work (tenant_id, instance_id, kind, body)
    SELECT c.tenant_id, c.parent_instance_id, 7 /* child end */, child_end(c.bookmark_id, c.generation,
               child_result(c.id, 'Faulted', CASE WHEN c.version_id IS NULL
                   THEN 'the definition ' || c.definition_id || ' has no published version'
                   ELSE 'the activation strategy of ' || c.definition_id || ' refuses another instance' END))
    FROM child_wanted c WHERE c.bookmark_id IS NOT NULL
      AND (c.tenant_id, c.id) NOT IN (SELECT s.tenant_id, s.instance_id FROM child_started s)
    ORDER BY c.place
), children_cancelled AS (
    -- A cancel reaches the children that live; the id of its row is negative.
    INSERT INTO work (tenant_id, id, instance_id, kind, body) OVERRIDING SYSTEM VALUE
    SELECT c.tenant_id, -nextval('work_id_seq'), c.id, 3 /* cancel */, '{}'
    FROM winner w
    CROSS JOIN LATERAL (
        SELECT x.tenant_id, x.id FROM child x WHERE x.parent_instance_id = w.instance_id AND x.tenant_id = w.tenant_id
        UNION ALL
        -- Their parents ran in a burst of this instance, and were not committed.
        SELECT x.tenant_id, x.id FROM child x
        WHERE x.root_instance_id = w.instance_id AND x.tenant_id = w.tenant_id
          AND (SELECT true FROM instance p WHERE p.id = x.parent_instance_id AND p.tenant_id = x.tenant_id LIMIT 1) IS NULL
        OFFSET 0) c
    WHERE w.status = 1 /* finished */ AND w.sub_status = 4 /* cancelled */
--]
--[delivering
), delivery_made AS (
    -- One for each event and each sink that wants it.
    INSERT INTO webhook_delivery (id, sink, tenant_id, instance_id, event_type, payload, expires_at)
    SELECT d.id, s.number, w.tenant_id, w.instance_id, d.event_type, d.payload::json, now() + s.retry_for
    FROM unnest($19::commit_delivery[]) d JOIN winner w ON w.no = d.no
    JOIN webhook_sink s ON s.tenant_id = w.tenant_id AND s.deleted_at IS NULL AND s.disabled_at IS NULL
        AND (s.event_types = '{}' OR d.event_type = ANY (s.event_types))
        AND (s.definitions = '{}' OR w.definition_id = ANY (s.definitions))
--]
), recorded AS (
    INSERT INTO burst_record (tenant_id, instance_id, version, at, began_at, first_entry, entries, body)
    SELECT w.tenant_id, w.instance_id, w.expected + 1,
           greatest(w.created_at, now()), now() - w.elapsed * interval '1 microsecond', w.first_entry, w.entries, w.record
    FROM winner w WHERE w.record IS NOT NULL
--[continuing
), kept_on AS (
    -- A burst that yielded continues under a row that it claimed, so that a crash loses nothing. Its counters begin at zero.
    -- No indexed column changes, so the row stays on its page: a start keeps its definition_id, a stimulus its fan_out.
    UPDATE work x SET kind = 4 /* continue */, body = '{}', version_id = NULL, definition_version = NULL,
        failures = 0, crashes = 0, replays = NULL
--]
--[single and continuing
    FROM winner w WHERE x.ctid = w.work_place AND w.continues
--]
--[multi and continuing
    FROM work_held h WHERE x.ctid = h.place
      AND CASE WHEN h.id IN (SELECT w.work_id FROM winner w WHERE w.continues AND w.work_id IS NOT NULL) THEN true ELSE false END
--]
--[continuing
      AND (x.kind <> 4 /* continue */ OR x.failures > 0 OR x.crashes > 0)
--]
--[new_row
), continued AS (
    -- A burst that claimed only a timer gets a new row.
    INSERT INTO work (tenant_id, instance_id, kind, body, claimed_by, claim_no, has_begun)
    SELECT w.tenant_id, w.instance_id, 4 /* continue */, '{}', $1, 1, true
    FROM winner w WHERE w.continues AND w.work_id IS NULL
    RETURNING tenant_id, instance_id, id
--]
)
SELECT w.no, w.expected + 1 AS version,
       greatest(w.updated_at + interval '1 microsecond', now()) AS committed_at
       --[existing
       -- Null: created by this commit.
       , w.created_at
       --]
       --[multi
       -- The instance held the key of its schedule: a queued occurrence may start now.
       , (w.tenant_id, w.instance_id) IN (SELECT f.tenant_id, f.instance_id FROM activation_freed f
           WHERE f.strategy = 0 /* schedule */) AS freed
       --]
       --[reports_pending
       -- Whether other work waits for an instance that continues.
       , CASE WHEN w.continues
              THEN EXISTS (SELECT 1 FROM work x
                           WHERE x.tenant_id = w.tenant_id AND x.instance_id = w.instance_id
                             AND coalesce(x.claimed_by, 0) = 0 AND x.available_at <= now())
              ELSE false END AS more
       --]
       --[new_row
       , c.id AS continued
       --]
       --[family
       , (SELECT count(*) FROM child_wanted x
          WHERE x.no = w.no AND (x.tenant_id, x.id) NOT IN (SELECT s.tenant_id, s.instance_id FROM child_started s))
         AS refused_children
       --]
       --[retried
       , CASE WHEN w.retried
              THEN retry_goes_on(w.tenant_id, w.instance_id, w.definition_id, w.correlation_id,
                                 -- Before this commit.
                                 (SELECT x.status FROM instance x WHERE x.ctid = w.place) = 1 /* finished */) END AS retried
       --]
FROM winner w
--[new_row
LEFT JOIN continued c ON c.tenant_id = w.tenant_id AND c.instance_id = w.instance_id
--]
