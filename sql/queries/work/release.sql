-- purpose: release claimed rows, with the failure that the burst counts and its backoff; at its twentieth failure a
--          row becomes a dead letter. Transient failures ($7 = 1) count only up to half of that, the row's own ($7 =
--          2) to the end. $10: of each row, whether a burst with it may have begun
-- caller:  store::claim
-- index:   work_pkey, timer_pkey, child_pkey
-- locks:   work by id, then timer by id, then child; children that another session has locked are skipped
-- A row whose instance is a child that another transaction changes now fails once more before it becomes a dead letter: the
-- parent that it wakes is the one that the child has then.
WITH returned AS MATERIALIZED (
    SELECT * FROM unnest($2::text[], $3::text[], $4::bigint[], $5::text[], $6::bigint[], $10::boolean[])
        u(tenant_id, instance_id, work_id, timer_id, claim_no, has_begun)
), work_held AS MATERIALIZED (
    SELECT w.tenant_id, w.id, r.has_begun,
           CASE $7::smallint WHEN 0 /* none */ THEN w.failures WHEN 1 /* transient */
               THEN greatest(w.failures, least(w.failures + 1, 10))
                             ELSE w.failures + 1 END AS failures
    FROM returned r
    JOIN work w ON w.tenant_id = r.tenant_id AND w.id = r.work_id
    WHERE w.claimed_by = $1 AND w.claim_no = r.claim_no
    ORDER BY w.tenant_id, w.id
    FOR NO KEY UPDATE OF w
), timer_held AS MATERIALIZED (
    SELECT t.tenant_id, t.instance_id, t.id, r.has_begun,
           CASE $7::smallint WHEN 0 /* none */ THEN t.failures WHEN 1 /* transient */
               THEN greatest(t.failures, least(t.failures + 1, 10))
                             ELSE t.failures + 1 END AS failures
    FROM returned r
    JOIN timer t ON t.tenant_id = r.tenant_id AND t.instance_id = r.instance_id AND t.id = r.timer_id
    WHERE t.claimed_by = $1 AND t.claim_no = r.claim_no
    ORDER BY t.tenant_id, t.instance_id, t.id
    FOR NO KEY UPDATE OF t
), child_held AS MATERIALIZED (
    -- Of the instances that are about to have a dead letter.
    SELECT c.*, (SELECT x.ctid FROM child x WHERE x.ctid = c.place FOR NO KEY UPDATE SKIP LOCKED) = c.place AS held
    FROM (SELECT r.tenant_id, r.instance_id
          FROM returned r
          WHERE $7::smallint = 2 /* row */
            AND (r.work_id IN (SELECT h.id FROM work_held h WHERE h.failures >= 20)
                 OR r.timer_id IN (SELECT h.id FROM timer_held h WHERE h.failures >= 20))
          GROUP BY 1, 2 ORDER BY 1, 2) d
    CROSS JOIN LATERAL (
        SELECT x.*, x.ctid AS place FROM child x WHERE x.id = d.instance_id AND x.tenant_id = d.tenant_id LIMIT 1) c
), last_failure AS MATERIALIZED (
    SELECT $7::smallint = 2 /* row */ AND NOT EXISTS (SELECT 1 FROM child_held c WHERE c.held IS NOT TRUE) AS yes
), work_back AS (
    UPDATE work w
    SET claimed_by = NULL, failures = h.failures, has_begun = h.has_begun,
        available_at = now() + $8::bigint * interval '1 microsecond'
    FROM work_held h
    WHERE w.tenant_id = h.tenant_id AND w.id = h.id AND NOT (h.failures >= 20 AND (SELECT l.yes FROM last_failure l))
), timer_back AS (
    UPDATE timer t
    SET claimed_by = NULL, failures = h.failures, has_begun = h.has_begun,
        available_at = now() + $8::bigint * interval '1 microsecond'
    FROM timer_held h
    WHERE t.tenant_id = h.tenant_id AND t.instance_id = h.instance_id AND t.id = h.id
      AND NOT (h.failures >= 20 AND (SELECT l.yes FROM last_failure l))
), work_dead AS (
    DELETE FROM work w USING work_held h
    WHERE w.tenant_id = h.tenant_id AND w.id = h.id AND h.failures >= 20 AND (SELECT l.yes FROM last_failure l)
    RETURNING w.tenant_id, w.instance_id, w.id, w.kind, w.definition_id, w.version_id, w.definition_version, w.replays,
              whole_body(w.body, CASE WHEN w.kind = 2 /* stimulus */ THEN w.fan_out END) AS body,
              h.failures, w.crashes, w.created_at
), timer_dead AS (
    DELETE FROM timer t USING timer_held h
    WHERE t.tenant_id = h.tenant_id AND t.instance_id = h.instance_id AND t.id = h.id AND h.failures >= 20
      AND (SELECT l.yes FROM last_failure l)
    RETURNING t.tenant_id, t.instance_id, t.id, t.due, h.failures, t.crashes
), freed AS (
    -- A dead-lettered start holds no activation key; a replay takes it again.
    DELETE FROM activation a USING work_dead d
    WHERE d.kind = 0 /* start */ AND a.tenant_id = d.tenant_id AND a.instance_id = d.instance_id
      AND NOT EXISTS (SELECT 1 FROM instance i WHERE i.tenant_id = a.tenant_id AND i.id = a.instance_id)
), child_given_up AS MATERIALIZED (
    -- It counts as faulted, once: a replay of its dead letter wakes no parent.
    SELECT c.* FROM child_held c WHERE c.held AND NOT c.given_up
      AND (c.tenant_id, c.id) IN (SELECT w.tenant_id, w.instance_id FROM work_dead w
                                  UNION ALL
                                  SELECT t.tenant_id, t.instance_id FROM timer_dead t)
), child_counted AS (
    UPDATE child x SET bookmark_id = NULL, given_up = true WHERE x.ctid = ANY (ARRAY(SELECT g.place FROM child_given_up g))
), parent_woken AS (
    INSERT INTO work (tenant_id, instance_id, kind, body)
    SELECT g.tenant_id, g.parent_instance_id, 7 /* child end */, child_end(g.bookmark_id, g.parent_generation,
               child_result(g.id, 'Faulted', 'the instance ' || g.id || ' has a dead letter'))
    FROM child_given_up g
    WHERE g.bookmark_id IS NOT NULL
      AND (SELECT true FROM instance p
           WHERE p.id = g.parent_instance_id AND p.tenant_id = g.tenant_id AND p.status = 0 /* running */ LIMIT 1)
), dead_letters AS (
    INSERT INTO dead_letter (tenant_id, instance_id, kind, reason, work_id, timer_id, definition_id, version_id,
                             definition_version, body, due, failures, crashes, accepted_at, replays)
    SELECT d.tenant_id, d.instance_id, d.kind, $9, d.id, NULL, d.definition_id, d.version_id, d.definition_version,
           d.body, NULL, d.failures, d.crashes, d.created_at, d.replays
    FROM work_dead d
    UNION ALL
    SELECT d.tenant_id, d.instance_id, 5 /* timer */, $9, NULL, d.id, NULL, NULL, NULL, NULL, d.due, d.failures, d.crashes,
           NULL, NULL
    FROM timer_dead d
    RETURNING 1
)
SELECT count(*) AS dead_letters FROM dead_letters
