-- purpose: release the claims of a removed node, a batch at a time. A crash is counted for its isolated rows (crashes
--          >= 2) if it had any, else for all. At its third crash a row becomes a dead letter if it was claimed at
--          half of the crashes within ten minutes or more; at its tenth in any case
-- caller:  store::node::removal
-- index:   work_claimed, timer_claimed, child_pkey, webhook_sink_claimed
-- locks:   work by id, then timer by id, then child, then webhook_sink; locked rows are skipped and found by the next run
WITH cause AS MATERIALIZED (
    SELECT coalesce(bool_or(d.crashed), false) AS crashed, coalesce(bool_or(d.had_isolated), false) AS had_isolated,
           greatest(3, least(10, ((SELECT count(*) FROM crash x
                                   WHERE x.crashed_at > clock_timestamp() - interval '10 minutes') + 1) / 2)) AS last_crash
    FROM removed_node d WHERE d.incarnation = $1
), work_held AS MATERIALIZED (
    SELECT w.tenant_id, w.instance_id, w.id, w.crashes FROM work w WHERE w.claimed_by = $1
    ORDER BY w.tenant_id, w.id LIMIT 500 FOR NO KEY UPDATE SKIP LOCKED
), timer_held AS MATERIALIZED (
    SELECT t.tenant_id, t.instance_id, t.id, t.crashes FROM timer t WHERE t.claimed_by = $1
    ORDER BY t.tenant_id, t.instance_id, t.id LIMIT 500 FOR NO KEY UPDATE SKIP LOCKED
), work_counted AS MATERIALIZED (
    SELECT h.tenant_id, h.instance_id, h.id, h.crashes + (v.crashed AND (h.crashes >= 2 OR NOT v.had_isolated))::integer AS crashes,
           v.last_crash
    FROM work_held h, cause v
), timer_counted AS MATERIALIZED (
    SELECT h.tenant_id, h.instance_id, h.id,
           h.crashes + (v.crashed AND (h.crashes >= 2 OR NOT v.had_isolated))::integer AS crashes,
           v.last_crash
    FROM timer_held h, cause v
), child_held AS MATERIALIZED (
    -- Of the instances that are about to have a dead letter. A child that another transaction changes now counts as locked:
    -- the parent that its dead letter wakes is the one that it has then.
    SELECT c.*, (SELECT x.ctid FROM child x WHERE x.ctid = c.place FOR NO KEY UPDATE SKIP LOCKED) = c.place AS held
    FROM (SELECT w.tenant_id, w.instance_id FROM work_counted w WHERE w.crashes >= w.last_crash
          UNION
          SELECT t.tenant_id, t.instance_id FROM timer_counted t WHERE t.crashes >= t.last_crash
          ORDER BY 1, 2) d
    CROSS JOIN LATERAL (
        SELECT x.*, x.ctid AS place FROM child x WHERE x.id = d.instance_id AND x.tenant_id = d.tenant_id LIMIT 1) c
), work_back AS (
    UPDATE work w SET claimed_by = NULL, available_at = now(), crashes = j.crashes
    FROM work_counted j WHERE w.tenant_id = j.tenant_id AND w.id = j.id AND j.crashes < j.last_crash
    RETURNING 1
), timer_back AS (
    UPDATE timer t SET claimed_by = NULL, available_at = now(), crashes = j.crashes
    FROM timer_counted j WHERE t.tenant_id = j.tenant_id AND t.instance_id = j.instance_id AND t.id = j.id
      AND j.crashes < j.last_crash
    RETURNING 1
), sink_back AS (
    UPDATE webhook_sink s SET claimed_by = NULL
    WHERE s.ctid = ANY (ARRAY(SELECT x.ctid FROM webhook_sink x WHERE x.claimed_by = $1 LIMIT 500 FOR NO KEY UPDATE SKIP LOCKED))
    RETURNING 1
), work_dead AS (
    DELETE FROM work w USING work_counted j WHERE w.tenant_id = j.tenant_id AND w.id = j.id AND j.crashes >= j.last_crash
      AND (j.tenant_id, j.instance_id) NOT IN (SELECT c.tenant_id, c.id FROM child_held c WHERE c.held IS NOT TRUE)
    RETURNING w.tenant_id, w.instance_id, w.id, w.kind, w.definition_id, w.version_id, w.definition_version, w.replays,
              whole_body(w.body, CASE WHEN w.kind = 2 /* stimulus */ THEN w.fan_out END) AS body,
              w.failures, j.crashes, w.created_at
), timer_dead AS (
    DELETE FROM timer t USING timer_counted j
    WHERE t.tenant_id = j.tenant_id AND t.instance_id = j.instance_id AND t.id = j.id AND j.crashes >= j.last_crash
      AND (j.tenant_id, j.instance_id) NOT IN (SELECT c.tenant_id, c.id FROM child_held c WHERE c.held IS NOT TRUE)
    RETURNING t.tenant_id, t.instance_id, t.id, t.due, t.failures, j.crashes
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
    SELECT d.tenant_id, d.instance_id, d.kind, 'the process that ran it crashed, ' || d.crashes || ' times', d.id, NULL,
           d.definition_id, d.version_id, d.definition_version, d.body, NULL, d.failures, d.crashes,
           d.created_at, d.replays
    FROM work_dead d
    UNION ALL
    SELECT d.tenant_id, d.instance_id, 5 /* timer */, 'the process that ran it crashed, ' || d.crashes || ' times', NULL, d.id,
           NULL, NULL, NULL, NULL, d.due, d.failures, d.crashes, NULL, NULL
    FROM timer_dead d
    RETURNING 1
)
SELECT (SELECT count(*) FROM work_back) + (SELECT count(*) FROM timer_back)
       + (SELECT count(*) FROM sink_back) + (SELECT count(*) FROM dead_letters) AS released,
       (SELECT count(*) FROM dead_letters) AS dead_letters
