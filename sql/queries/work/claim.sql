-- purpose: claim work and due timers of instances whose locks the caller holds, a cancel first (its number is
--          negative). An isolated row (crashes >= 2) is claimed only if $5: one, and with it nothing else of its
--          instance; unless a cancel waits there: then only the start is claimed with the cancel. Bodies are bounded:
--          `together`: nothing is claimed if all bodies exceed $6 bytes; one row without columns says so. `bounded`: of
--          each instance the first rows of $7 bytes are claimed, and what exceeds that, in the order of the instances, as
--          long as it is at most $6 bytes, or if $8 at least one row; an instance of which a row is left out is named.
--          While the cluster is paused only what waits with a cancel is claimed
-- caller:  store::claim::rows
-- index:   work_instance, timer_pkey, fan_out_pkey
-- locks:   work by id, then timer by id; rows that another session has locked are skipped
-- coalesce(claimed_by, 0): no incarnation is 0. With IS NULL a plan that is made while nothing is due may walk over all
-- that is due, once for each instance.
-- A locked row is updated by ctid; one that another transaction changed after the snapshot is not found there, and is
-- claimed another time.
-- pg_column_size reads no body, as bodies are stored uncompressed; so is the payload of a fan-out, which counts for each
-- of its rows.
WITH target AS MATERIALIZED (
    --[together
    SELECT * FROM unnest($2::text[], $3::text[]) u(tenant_id, instance_id)
    --]
    --[bounded
    SELECT * FROM unnest($2::text[], $3::text[]) WITH ORDINALITY u(tenant_id, instance_id, no)
    --]
    WHERE (SELECT p.mode = 0 /* running */ FROM cluster_pause p WHERE p.only_row)
       OR coalesce((SELECT true FROM work c
                    WHERE c.instance_id = u.instance_id AND c.id + 0 < 0 AND c.tenant_id = u.tenant_id
                      AND coalesce(c.claimed_by, 0) = 0 AND c.available_at <= now() LIMIT 1), false)
), work_isolated AS MATERIALIZED (
    SELECT f.*
    FROM target t
    CROSS JOIN LATERAL (
        --[together
        SELECT w.tenant_id, w.instance_id, w.ctid AS place FROM work w
        --]
        --[bounded
        SELECT w.tenant_id, w.instance_id, w.ctid AS place, pg_column_size(w.body)
                   + CASE WHEN w.fan_out IS NULL OR w.kind <> 2 /* stimulus */ THEN 0 ELSE
                       (SELECT coalesce(pg_column_size(o.payload), 0) FROM fan_out o WHERE o.id = w.fan_out) END AS bytes
        FROM work w
        --]
        WHERE w.tenant_id = t.tenant_id AND w.instance_id = t.instance_id AND coalesce(w.claimed_by, 0) = 0
          AND w.available_at <= now() AND w.crashes >= 2
          --[together
          AND pg_column_size(w.body)
                   + CASE WHEN w.fan_out IS NULL OR w.kind <> 2 /* stimulus */ THEN 0 ELSE
                       (SELECT coalesce(pg_column_size(o.payload), 0) FROM fan_out o WHERE o.id = w.fan_out) END <= $6::bigint
          --]
          --[bounded
          AND ($8::boolean OR pg_column_size(w.body)
                   + CASE WHEN w.fan_out IS NULL OR w.kind <> 2 /* stimulus */ THEN 0 ELSE
                       (SELECT coalesce(pg_column_size(o.payload), 0) FROM fan_out o WHERE o.id = w.fan_out) END <= $6::bigint)
          --]
          AND (SELECT true FROM work c
               WHERE c.instance_id = w.instance_id AND c.id + 0 < 0 AND c.tenant_id = w.tenant_id
                 AND coalesce(c.claimed_by, 0) = 0 AND c.available_at <= now() AND c.crashes < 2 LIMIT 1) IS NULL
        ORDER BY w.id + 0 LIMIT 1
        FOR NO KEY UPDATE SKIP LOCKED) f
    WHERE $5::boolean
    LIMIT 1
), timer_isolated AS MATERIALIZED (
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
    WHERE $5::boolean AND NOT EXISTS (SELECT 1 FROM work_isolated)
    LIMIT 1
), unisolated AS MATERIALIZED (
    SELECT t.*
    FROM target t
    WHERE NOT EXISTS (SELECT 1 FROM work_isolated s WHERE s.tenant_id = t.tenant_id AND s.instance_id = t.instance_id)
      AND NOT EXISTS (SELECT 1 FROM timer_isolated s WHERE s.tenant_id = t.tenant_id AND s.instance_id = t.instance_id)
), work_free AS MATERIALIZED (
    --[together
    SELECT f.place, f.bytes
    --]
    --[bounded
    SELECT t.no, f.place, f.id, f.bytes
    --]
    FROM unisolated t
    CROSS JOIN LATERAL (
        --[together
        SELECT w.ctid AS place, pg_column_size(w.body)
                   + CASE WHEN w.fan_out IS NULL OR w.kind <> 2 /* stimulus */ THEN 0 ELSE
                       (SELECT coalesce(pg_column_size(o.payload), 0) FROM fan_out o WHERE o.id = w.fan_out) END AS bytes
        FROM work w
        --]
        --[bounded
        SELECT w.ctid AS place, w.id + 0 AS id, pg_column_size(w.body)
                   + CASE WHEN w.fan_out IS NULL OR w.kind <> 2 /* stimulus */ THEN 0 ELSE
                       (SELECT coalesce(pg_column_size(o.payload), 0) FROM fan_out o WHERE o.id = w.fan_out) END AS bytes
        FROM work w
        --]
        WHERE w.tenant_id = t.tenant_id AND w.instance_id = t.instance_id AND coalesce(w.claimed_by, 0) = 0
          AND w.available_at <= now()
          AND (w.crashes < 2
               OR w.kind = 0 /* start */ AND (SELECT true FROM work c
                                 WHERE c.instance_id = w.instance_id AND c.id + 0 < 0 AND c.tenant_id = w.tenant_id
                                   AND coalesce(c.claimed_by, 0) = 0 AND c.available_at <= now() AND c.crashes < 2 LIMIT 1))
        ORDER BY w.id + 0 LIMIT $4
        FOR NO KEY UPDATE SKIP LOCKED) f
    --[together
), exceeded AS MATERIALIZED (
    SELECT true AS yes WHERE (SELECT sum(f.bytes) FROM work_free f) > $6::bigint
    --]
    --[bounded
), work_measured AS MATERIALIZED (
    -- `own`: of its instance up to here; `excess`: of all up to here, what exceeds the bytes of each instance.
    SELECT e.no, e.place, e.own <= $7 OR e.excess + i.bytes <= $6 OR $8 AND i.bytes = 0 AND e.excess = e.added AS fits
    FROM (SELECT a.*, sum(a.added) OVER (ORDER BY a.no, a.id) AS excess
          FROM (SELECT o.*, least(o.bytes, greatest(o.own - $7::bigint, 0))::integer AS added
                FROM (SELECT f.*, sum(f.bytes) OVER (PARTITION BY f.no ORDER BY f.id) AS own FROM work_free f) o) a) e
    CROSS JOIN (SELECT coalesce(sum(s.bytes), 0) AS bytes FROM work_isolated s) i
    --]
), timer_free AS MATERIALIZED (
    SELECT f.place
    FROM unisolated t
    CROSS JOIN LATERAL (
        SELECT m.ctid AS place FROM timer m
        WHERE m.tenant_id = t.tenant_id AND m.instance_id = t.instance_id AND coalesce(m.claimed_by, 0) = 0
          AND m.available_at <= now() AND m.crashes < 2
        ORDER BY m.available_at LIMIT $4
        FOR NO KEY UPDATE SKIP LOCKED) f
), work_taken AS (
    UPDATE work w SET claimed_by = $1, claim_no = w.claim_no + 1
    --[together
    FROM (SELECT place FROM work_free UNION ALL SELECT place FROM work_isolated) f
    WHERE w.ctid = f.place AND (SELECT e.yes FROM exceeded e) IS NULL
    --]
    --[bounded
    FROM (SELECT place FROM work_measured WHERE fits UNION ALL SELECT place FROM work_isolated) f
    WHERE w.ctid = f.place
    --]
    RETURNING w.tenant_id, w.instance_id, w.id, w.claim_no, w.kind, w.body, w.definition_id, w.version_id,
              w.definition_version, w.failures, w.crashes,
              CASE WHEN w.fan_out IS NOT NULL AND w.kind = 2 /* stimulus */ THEN
                  (SELECT pg_column_size(o.payload) FROM fan_out o WHERE o.id = w.fan_out) END AS payload_bytes
), timer_taken AS (
    UPDATE timer m SET claimed_by = $1, claim_no = m.claim_no + 1
    FROM (SELECT place FROM timer_free UNION ALL SELECT place FROM timer_isolated) f
    WHERE m.ctid = f.place
    RETURNING m.tenant_id, m.instance_id, m.id, m.claim_no, m.due, m.failures, m.crashes
)
SELECT tenant_id, instance_id, id AS work_id, NULL::text AS timer_id, claim_no, kind, body, definition_id, version_id,
       definition_version, failures, crashes, payload_bytes, NULL::timestamptz AS due,
       now() AS claimed_at
FROM work_taken
UNION ALL
SELECT tenant_id, instance_id, NULL, id, claim_no, NULL, NULL, NULL, NULL, NULL, failures, crashes, NULL, due, now()
FROM timer_taken
UNION ALL
--[together
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM exceeded
--]
--[bounded
SELECT t.tenant_id, t.instance_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM target t
WHERE t.no IN (SELECT m.no FROM work_measured m WHERE NOT m.fits)
--]
ORDER BY due NULLS LAST, work_id
