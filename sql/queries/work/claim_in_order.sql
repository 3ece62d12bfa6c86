-- purpose: claim the rows of instances whose order matters, which claim.sql has named. A cancel is claimed alone, or with the
--          start of its instance. Else the rows of a burst that began are claimed, as many as can be in their order and
--          nothing behind them, so that the burst is repeated on the same state: a row that cannot be claimed now keeps
--          those behind it, and new rows, from being claimed. An isolated row (crashes >= 2) is claimed only if $5: one,
--          and of its instance nothing but the row of a yield, which has no content. Bodies are bounded as in claim.sql,
--          `bounded`. An instance of which nothing is claimed is named, with the microseconds until its first row is due, and
--          one of which rows of the lost burst are left
-- caller:  store::claim::rows
-- index:   work_instance, work_begun, timer_pkey, fan_out_pkey
-- locks:   work by id, then timer by id; rows that another session has locked are skipped
-- Rows are read first and locked by ctid, as FOR UPDATE SKIP LOCKED alone would not show which row was skipped. One that
-- another transaction changed after the snapshot is not found at its ctid, and counts as locked.
WITH target AS MATERIALIZED (
    SELECT u.tenant_id, u.instance_id, u.no,
           coalesce((SELECT true FROM work c
                     WHERE c.instance_id = u.instance_id AND c.tenant_id = u.tenant_id
                       AND work_order(c.id, c.definition_id) < 0
                       AND coalesce(c.claimed_by, 0) = 0 AND c.available_at <= now() AND c.crashes < 2 LIMIT 1),
                    false) AS is_cancelled
    FROM unnest($2::text[], $3::text[]) WITH ORDINALITY u(tenant_id, instance_id, no)
), isolated AS MATERIALIZED (
    SELECT t.no, w.id
    FROM target t
    CROSS JOIN LATERAL (
        SELECT c.id FROM work c
        WHERE c.instance_id = t.instance_id AND c.tenant_id = t.tenant_id
          AND work_order(c.id, c.definition_id) < 0
          AND coalesce(c.claimed_by, 0) = 0 AND c.available_at <= now() AND c.crashes >= 2
        ORDER BY c.id + 0 LIMIT 1) w
    WHERE $5::boolean AND NOT t.is_cancelled
    ORDER BY t.no LIMIT 1
), cancelling AS MATERIALIZED (
    SELECT t.no, w.place, w.id, w.crashes
    FROM target t
    LEFT JOIN isolated o ON o.no = t.no
    CROSS JOIN LATERAL (
        (SELECT c.ctid AS place, c.id, c.crashes FROM work c
         WHERE c.instance_id = t.instance_id AND c.tenant_id = t.tenant_id
           AND work_order(c.id, c.definition_id) < 0
           AND coalesce(c.claimed_by, 0) = 0 AND c.available_at <= now() AND (c.crashes < 2 OR c.id = o.id)
         ORDER BY c.id + 0 LIMIT $4)
        UNION ALL
        (SELECT s.ctid, s.id, 0 FROM work s
         WHERE s.instance_id = t.instance_id AND s.tenant_id = t.tenant_id AND work_order(s.id, s.definition_id) = 0
           AND s.kind = 0 /* start */ AND coalesce(s.claimed_by, 0) = 0 AND s.available_at <= now() LIMIT 1)) w
    WHERE t.is_cancelled OR o.id IS NOT NULL
), begun AS MATERIALIZED (
    SELECT t.no, f.*,
           -- Of those with content: timers first, as in a burst.
           row_number() OVER (PARTITION BY t.no, f.goes_on ORDER BY f.due NULLS LAST, f.timer_id, f.id) AS position
    FROM target t
    CROSS JOIN LATERAL (
        (SELECT w.place, w.id, NULL::text AS timer_id, NULL::timestamptz AS due, w.kind = 4 /* continue */ AS goes_on,
                w.crashes, w.available_at, coalesce(w.claimed_by, 0) = 0 AS is_free, pg_column_size(w.body)
                   + CASE WHEN w.fan_out IS NULL OR w.kind <> 2 /* stimulus */ THEN 0 ELSE
                       (SELECT coalesce(pg_column_size(o.payload), 0) FROM fan_out o WHERE o.id = w.fan_out) END AS bytes
         FROM (SELECT s.ctid AS place, s.* FROM work s
               WHERE s.instance_id = t.instance_id AND s.tenant_id = t.tenant_id
                 AND work_order(s.id, s.definition_id) = 0 AND s.has_begun
               UNION ALL
               SELECT b.ctid, b.* FROM work b
               WHERE b.instance_id = t.instance_id AND b.tenant_id = t.tenant_id
                 AND b.has_begun AND b.definition_id IS NULL AND b.id > 0) w
         ORDER BY w.id)
        UNION ALL
        (SELECT m.ctid, NULL, m.id, m.due, false, m.crashes, m.available_at, coalesce(m.claimed_by, 0) = 0, 0
         FROM timer m
         WHERE m.instance_id = t.instance_id AND m.tenant_id = t.tenant_id AND m.has_begun)) f
    WHERE NOT t.is_cancelled AND t.no NOT IN (SELECT o.no FROM isolated o)
      AND (SELECT p.mode = 0 /* running */ FROM cluster_pause p WHERE p.only_row)
), bound AS MATERIALIZED (
    -- Of each instance: the position of the first row with content that cannot be claimed or is isolated, and what is alone.
    SELECT b.no,
           min(b.position) FILTER (WHERE NOT b.goes_on AND NOT (b.is_free AND b.available_at <= now())) AS blocked,
           min(b.position) FILTER (WHERE NOT b.goes_on AND b.crashes >= 2) AS isolated,
           bool_and(b.goes_on) AS only_goes_on,
           bool_and(b.is_free AND b.available_at <= now()) FILTER (WHERE b.goes_on) IS FALSE AS goes_on_blocked,
           -- The row at which the instance stands.
           bool_or(b.crashes >= 2) FILTER (WHERE NOT b.goes_on AND b.position = 1) AS first_isolated,
           bool_or(b.crashes >= 2) FILTER (WHERE b.goes_on) AS goes_on_isolated
    FROM begun b GROUP BY b.no
), ready AS MATERIALIZED (
    SELECT b.no, coalesce(b.first_isolated, b.only_goes_on AND b.goes_on_isolated) AS is_isolated,
           -- Rows from this position on are left.
           CASE WHEN b.first_isolated THEN least(coalesce(b.blocked, 2), 2) ELSE least(b.blocked, b.isolated) END AS until
    FROM bound b
    WHERE NOT b.goes_on_blocked AND (b.only_goes_on OR coalesce(b.blocked, 2) > 1)
), chosen AS MATERIALIZED (
    SELECT b.*
    FROM begun b JOIN ready r ON r.no = b.no
    WHERE (b.goes_on OR b.position < coalesce(r.until, b.position + 1))
      AND (NOT r.is_isolated OR $5::boolean AND r.no = (SELECT min(i.no) FROM ready i WHERE i.is_isolated)
           AND NOT EXISTS (SELECT 1 FROM cancelling c WHERE c.crashes >= 2))
), work_locked AS MATERIALIZED (
    SELECT c.no, c.id, l.place
    FROM (SELECT no, id, place FROM chosen WHERE id IS NOT NULL
          UNION ALL
          SELECT no, id, place FROM cancelling
          ORDER BY id) c
    CROSS JOIN LATERAL (
        SELECT w.ctid AS place FROM work w
        WHERE w.ctid = c.place AND w.id = c.id AND coalesce(w.claimed_by, 0) = 0 FOR NO KEY UPDATE SKIP LOCKED) l
    WHERE (SELECT true FROM work s WHERE s.ctid = l.place)
), timer_locked AS MATERIALIZED (
    SELECT c.no, c.timer_id, l.place
    FROM (SELECT no, timer_id, place FROM chosen WHERE timer_id IS NOT NULL ORDER BY no, timer_id) c
    CROSS JOIN LATERAL (
        SELECT m.ctid AS place FROM timer m
        WHERE m.ctid = c.place AND m.id = c.timer_id AND coalesce(m.claimed_by, 0) = 0 FOR NO KEY UPDATE SKIP LOCKED) l
    WHERE (SELECT true FROM timer s WHERE s.ctid = l.place)
), held AS MATERIALIZED (
    SELECT c.*,
           CASE WHEN c.id IS NULL THEN (c.no, c.timer_id) IN (SELECT l.no, l.timer_id FROM timer_locked l)
                ELSE c.id IN (SELECT l.id FROM work_locked l) END AS is_held
    FROM chosen c
), unbroken AS MATERIALIZED (
    SELECT h.*
    FROM held h
    JOIN (SELECT x.no, min(x.position) FILTER (WHERE NOT x.goes_on AND NOT x.is_held) AS until,
                 bool_and(x.is_held) FILTER (WHERE x.goes_on) IS FALSE AS is_lost
          FROM held x GROUP BY x.no) u ON u.no = h.no
    WHERE NOT u.is_lost AND coalesce(u.until, 2) > 1 AND (h.goes_on OR h.position < coalesce(u.until, h.position + 1))
), measured AS MATERIALIZED (
    SELECT e.*, e.own <= $7 OR e.excess <= $6 OR $8 AND e.excess = e.added AS fits
    FROM (SELECT a.*, sum(a.added) OVER (ORDER BY a.no, NOT a.goes_on, a.position) AS excess
          FROM (SELECT o.*, least(o.bytes, greatest(o.own - $7::bigint, 0))::integer AS added
                FROM (SELECT u.*, sum(u.bytes) OVER (PARTITION BY u.no ORDER BY NOT u.goes_on, u.position) AS own
                      FROM unbroken u) o) a) e
), taken AS MATERIALIZED (
    SELECT m.* FROM measured m
    WHERE m.fits
      -- What has no content does not go without the first row that has.
      AND (NOT m.goes_on OR NOT EXISTS (SELECT 1 FROM measured f WHERE f.no = m.no AND NOT f.goes_on AND f.position = 1
                                        AND NOT f.fits))
), work_taken AS (
    UPDATE work w SET claimed_by = $1, claim_no = w.claim_no + 1, has_begun = true
    FROM work_locked l
    WHERE w.ctid = l.place AND (l.id IN (SELECT t.id FROM taken t) OR l.id IN (SELECT c.id FROM cancelling c))
    RETURNING w.tenant_id, w.instance_id, w.id, w.claim_no, w.kind, w.body, w.definition_id, w.version_id,
              w.definition_version, w.failures, w.crashes, w.replays, w.available_at,
              CASE WHEN w.fan_out IS NOT NULL AND w.kind = 2 /* stimulus */ THEN
                  (SELECT pg_column_size(o.payload) FROM fan_out o WHERE o.id = w.fan_out) END AS payload_bytes
), timer_taken AS (
    UPDATE timer m SET claimed_by = $1, claim_no = m.claim_no + 1, has_begun = true
    FROM timer_locked l
    WHERE m.ctid = l.place AND (l.no, l.timer_id) IN (SELECT t.no, t.timer_id FROM taken t)
    RETURNING m.tenant_id, m.instance_id, m.id, m.claim_no, m.due, m.failures, m.crashes, m.available_at
)
SELECT tenant_id, instance_id, id AS work_id, NULL::text AS timer_id, claim_no, kind, body, definition_id, version_id,
       definition_version, failures, crashes, payload_bytes, replays, true AS had_begun, NULL::timestamptz AS due,
       now() AS claimed_at, available_at, NULL::text AS left_out, NULL::bigint AS wait
FROM work_taken
UNION ALL
SELECT tenant_id, instance_id, NULL, id, claim_no, NULL, NULL, NULL, NULL, NULL, failures, crashes, NULL, NULL, true, due, now(),
       available_at, NULL, NULL
FROM timer_taken
UNION ALL
SELECT t.tenant_id, t.instance_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       'bytes', NULL
FROM target t
WHERE t.no IN (SELECT m.no FROM measured m WHERE NOT m.fits)
UNION ALL
SELECT t.tenant_id, t.instance_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       'followed', NULL
FROM target t
WHERE t.no IN (SELECT k.no FROM taken k)
  AND (SELECT count(*) FROM begun b WHERE b.no = t.no) > (SELECT count(*) FROM taken k WHERE k.no = t.no)
UNION ALL
SELECT t.tenant_id, t.instance_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       'order', (SELECT (extract(epoch FROM min(b.available_at) - clock_timestamp()) * 1000000)::bigint
                 FROM begun b WHERE b.no = t.no AND b.is_free)
FROM target t
WHERE NOT t.is_cancelled AND t.no NOT IN (SELECT m.no FROM measured m)
ORDER BY due NULLS LAST, timer_id, work_id
