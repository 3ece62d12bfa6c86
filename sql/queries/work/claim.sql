-- purpose: claim what is to be done for instances whose locks we hold: instructions and delays that came due, a cancel
--          before all else, as its number is negative. What has been in the hands of two processes that died is claimed
--          only if $5, one such row, and with it nothing else of its instance; unless a cancel waits there: nothing of the
--          instance is run then, so that a start goes with the cancel, and all else is left
-- caller:  store::claim
-- index:   work_instance, timer_pkey
-- locks:   work by id, then timer by id; rows that another session has locked are skipped
-- No incarnation is 0. With IS NULL the plan may walk over all that is due, once for each instance: it is made while
-- nothing is due yet, as far as the statistics know.
-- A row that is locked is claimed by its place; one that somebody has changed since our snapshot is not found there, and
-- is claimed another time.
WITH target AS MATERIALIZED (
    SELECT * FROM unnest($2::text[], $3::text[]) u(tenant_id, instance_id)
), work_suspect AS MATERIALIZED (
    SELECT f.tenant_id, f.instance_id, f.place
    FROM target t
    CROSS JOIN LATERAL (
        SELECT w.tenant_id, w.instance_id, w.ctid AS place FROM work w
        WHERE w.tenant_id = t.tenant_id AND w.instance_id = t.instance_id AND coalesce(w.claimed_by, 0) = 0
          AND w.available_at <= now() AND w.crashes >= 2
          AND (SELECT true FROM work c
               WHERE c.instance_id = w.instance_id AND c.id + 0 < 0 AND c.tenant_id = w.tenant_id
                 AND coalesce(c.claimed_by, 0) = 0 AND c.available_at <= now() AND c.crashes < 2 LIMIT 1) IS NULL
        ORDER BY w.id + 0 LIMIT 1
        FOR NO KEY UPDATE SKIP LOCKED) f
    WHERE $5::boolean
    LIMIT 1
), timer_suspect AS MATERIALIZED (
    SELECT f.tenant_id, f.instance_id, f.place
    FROM target t
    CROSS JOIN LATERAL (
        SELECT m.tenant_id, m.instance_id, m.ctid AS place FROM timer m
        WHERE m.tenant_id = t.tenant_id AND m.instance_id = t.instance_id AND coalesce(m.claimed_by, 0) = 0
          AND m.available_at <= now() AND m.crashes >= 2
          AND (SELECT true FROM work c
               WHERE c.instance_id = m.instance_id AND c.id + 0 < 0 AND c.tenant_id = m.tenant_id
                 AND coalesce(c.claimed_by, 0) = 0 AND c.available_at <= now() AND c.crashes < 2 LIMIT 1) IS NULL
        ORDER BY m.available_at LIMIT 1
        FOR NO KEY UPDATE SKIP LOCKED) f
    WHERE $5::boolean AND NOT EXISTS (SELECT 1 FROM work_suspect)
    LIMIT 1
), unsuspected AS MATERIALIZED (
    SELECT t.tenant_id, t.instance_id
    FROM target t
    WHERE NOT EXISTS (SELECT 1 FROM work_suspect s WHERE s.tenant_id = t.tenant_id AND s.instance_id = t.instance_id)
      AND NOT EXISTS (SELECT 1 FROM timer_suspect s WHERE s.tenant_id = t.tenant_id AND s.instance_id = t.instance_id)
), work_free AS MATERIALIZED (
    SELECT f.place
    FROM unsuspected t
    CROSS JOIN LATERAL (
        SELECT w.ctid AS place FROM work w
        WHERE w.tenant_id = t.tenant_id AND w.instance_id = t.instance_id AND coalesce(w.claimed_by, 0) = 0
          AND w.available_at <= now()
          AND (w.crashes < 2
               OR w.kind = 0 /* start */ AND (SELECT true FROM work c
                                 WHERE c.instance_id = w.instance_id AND c.id + 0 < 0 AND c.tenant_id = w.tenant_id
                                   AND coalesce(c.claimed_by, 0) = 0 AND c.available_at <= now() AND c.crashes < 2 LIMIT 1))
        ORDER BY w.id + 0 LIMIT $4
        FOR NO KEY UPDATE SKIP LOCKED) f
), timer_free AS MATERIALIZED (
    SELECT f.place
    FROM unsuspected t
    CROSS JOIN LATERAL (
        SELECT m.ctid AS place FROM timer m
        WHERE m.tenant_id = t.tenant_id AND m.instance_id = t.instance_id AND coalesce(m.claimed_by, 0) = 0
          AND m.available_at <= now() AND m.crashes < 2
        ORDER BY m.available_at LIMIT $4
        FOR NO KEY UPDATE SKIP LOCKED) f
), work_taken AS (
    UPDATE work w SET claimed_by = $1, claim_no = w.claim_no + 1
    FROM (SELECT place FROM work_free UNION ALL SELECT place FROM work_suspect) f
    WHERE w.ctid = f.place
    RETURNING w.tenant_id, w.instance_id, w.id, w.claim_no, w.kind, w.body, w.definition_id, w.version_id,
              w.definition_version, w.failures, w.crashes
), timer_taken AS (
    UPDATE timer m SET claimed_by = $1, claim_no = m.claim_no + 1
    FROM (SELECT place FROM timer_free UNION ALL SELECT place FROM timer_suspect) f
    WHERE m.ctid = f.place
    RETURNING m.tenant_id, m.instance_id, m.id, m.claim_no, m.due, m.failures, m.crashes
)
SELECT tenant_id, instance_id, id AS work_id, NULL::text AS timer_id, claim_no, kind, body, definition_id, version_id,
       definition_version, failures, crashes, NULL::timestamptz AS due,
       now() AS claimed_at
FROM work_taken
UNION ALL
SELECT tenant_id, instance_id, NULL, id, claim_no, NULL, NULL, NULL, NULL, NULL, failures, crashes, due, now()
FROM timer_taken
ORDER BY due NULLS LAST, work_id
