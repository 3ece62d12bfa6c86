-- purpose: claim work and due timers of instances whose locks the caller holds. An instance with a cancel, or with rows of a
--          burst that began, is named and left to claim_in_order. Bodies are bounded: `together`: nothing is claimed if all
--          bodies exceed $5 bytes; one row without columns says so. `bounded`: of each instance the first rows of $6 bytes
--          are claimed, and what exceeds that, in the order of the instances, as long as it is at most $5 bytes, or if $7 at
--          least one row; an instance of which a row is left out is named. While the cluster is paused nothing is claimed
-- caller:  store::claim::rows
-- index:   work_instance, work_begun, timer_pkey, fan_out_pkey
-- locks:   work by id, then timer by id; rows that another session has locked are skipped
-- coalesce(claimed_by, 0): no incarnation is 0. With IS NULL a plan that is made while nothing is due may walk over all
-- that is due, once for each instance.
-- A locked row is updated by ctid; one that another transaction changed after the snapshot is not found there, and is
-- claimed another time.
-- pg_column_size reads no body, as bodies are stored uncompressed; so is the payload of a fan-out, which counts for each
-- of its rows.
WITH target AS MATERIALIZED (
    SELECT u.tenant_id, u.instance_id, u.no,
           -- A cancel, or a start whose burst began; another row of such a burst.
           coalesce((SELECT true FROM work f
                     WHERE f.instance_id = u.instance_id AND f.tenant_id = u.tenant_id
                       AND work_order(f.id, f.definition_id) <= 0 AND (f.id < 0 OR f.has_begun) LIMIT 1),
                    (SELECT true FROM work f
                     WHERE f.instance_id = u.instance_id AND f.tenant_id = u.tenant_id
                       AND f.has_begun AND f.definition_id IS NULL AND f.id > 0 LIMIT 1),
                    (SELECT true FROM timer f
                     WHERE f.instance_id = u.instance_id AND f.tenant_id = u.tenant_id AND f.has_begun LIMIT 1), false)
               AS has_order
    FROM unnest($2::text[], $3::text[]) WITH ORDINALITY u(tenant_id, instance_id, no)
), free AS MATERIALIZED (
    SELECT t.tenant_id, t.instance_id, t.no
    FROM target t
    WHERE NOT t.has_order AND (SELECT p.mode = 0 /* running */ FROM cluster_pause p WHERE p.only_row)
), work_free AS MATERIALIZED (
    --[together
    SELECT f.place, f.bytes
    --]
    --[bounded
    SELECT t.no, f.place, f.id, f.bytes
    --]
    FROM free t
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
        ORDER BY work_order(w.id, w.definition_id) LIMIT $4
        FOR NO KEY UPDATE SKIP LOCKED) f
    --[together
), exceeded AS MATERIALIZED (
    SELECT true AS yes WHERE (SELECT sum(f.bytes) FROM work_free f) > $5::bigint
    --]
    --[bounded
), work_measured AS MATERIALIZED (
    -- `own`: of its instance up to here; `excess`: of all up to here, what exceeds the bytes of each instance.
    SELECT e.no, e.place, e.own <= $6 OR e.excess <= $5 OR $7 AND e.excess = e.added AS fits
    FROM (SELECT a.*, sum(a.added) OVER (ORDER BY a.no, a.id) AS excess
          FROM (SELECT o.*, least(o.bytes, greatest(o.own - $6::bigint, 0))::integer AS added
                FROM (SELECT f.*, sum(f.bytes) OVER (PARTITION BY f.no ORDER BY f.id) AS own FROM work_free f) o) a) e
    --]
), timer_free AS MATERIALIZED (
    SELECT f.place
    FROM free t
    CROSS JOIN LATERAL (
        SELECT m.ctid AS place FROM timer m
        WHERE m.tenant_id = t.tenant_id AND m.instance_id = t.instance_id AND coalesce(m.claimed_by, 0) = 0
          AND m.available_at <= now()
        ORDER BY m.available_at LIMIT $4
        FOR NO KEY UPDATE SKIP LOCKED) f
), work_taken AS (
    UPDATE work w SET claimed_by = $1, claim_no = w.claim_no + 1, has_begun = true
    --[together
    FROM work_free f
    WHERE w.ctid = f.place AND (SELECT e.yes FROM exceeded e) IS NULL
    --]
    --[bounded
    FROM work_measured f
    WHERE w.ctid = f.place AND f.fits
    --]
    RETURNING w.tenant_id, w.instance_id, w.id, w.claim_no, w.kind, w.body, w.definition_id, w.version_id,
              w.definition_version, w.failures, w.crashes, w.replays, w.available_at,
              CASE WHEN w.fan_out IS NOT NULL AND w.kind = 2 /* stimulus */ THEN
                  (SELECT pg_column_size(o.payload) FROM fan_out o WHERE o.id = w.fan_out) END AS payload_bytes
), timer_taken AS (
    UPDATE timer m SET claimed_by = $1, claim_no = m.claim_no + 1, has_begun = true
    FROM timer_free f
    WHERE m.ctid = f.place
    --[together
      AND (SELECT e.yes FROM exceeded e) IS NULL
    --]
    RETURNING m.tenant_id, m.instance_id, m.id, m.claim_no, m.due, m.failures, m.crashes, m.available_at
)
SELECT tenant_id, instance_id, id AS work_id, NULL::text AS timer_id, claim_no, kind, body, definition_id, version_id,
       definition_version, failures, crashes, payload_bytes, replays, false AS had_begun, NULL::timestamptz AS due,
       now() AS claimed_at, available_at, NULL::text AS left_out, NULL::bigint AS wait
FROM work_taken
UNION ALL
SELECT tenant_id, instance_id, NULL, id, claim_no, NULL, NULL, NULL, NULL, NULL, failures, crashes, NULL, NULL, false, due, now(),
       available_at, NULL, NULL
FROM timer_taken
UNION ALL
SELECT t.tenant_id, t.instance_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       'order', NULL
FROM target t WHERE t.has_order
UNION ALL
--[together
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'bytes', NULL
FROM exceeded
--]
--[bounded
SELECT t.tenant_id, t.instance_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       'bytes', NULL
FROM free t
WHERE t.no IN (SELECT m.no FROM work_measured m WHERE NOT m.fits)
--]
ORDER BY due NULLS LAST, timer_id, work_id
