-- purpose: make a row of work for each bookmark of the next page of a fan-out and move its cursor; at most $9 of its
--          rows are unclaimed at a time. A bookmark that has ended since the turn gets one, too, if its instance runs. After
--          the last page it is finished, or, if neither a page nor a trigger met anything, it takes its turn again
-- caller:  store::fan_out, in the transaction that holds the fan-out
-- index:   work_fan_out, fan_out_owed_pkey, bookmark_hash or bookmark_correlation or (bookmark_pkey, bookmark_crowded)
-- locks:   none but the fan-out, which the caller holds
WITH queued AS MATERIALIZED (
    -- Not from the first row on: consumed rows stay in the index until it is vacuumed.
    SELECT w.id
    FROM work w
    WHERE w.fan_out = $1 AND w.id >= (SELECT f.first_work FROM fan_out f WHERE f.id = $1) AND coalesce(w.claimed_by, 0) = 0
    ORDER BY w.id
    LIMIT $9::bigint
), room AS MATERIALIZED (
    SELECT least($8::bigint, $9 - (SELECT count(*) FROM queued)) AS rows
), bound AS MATERIALIZED (
    SELECT b.instance_id, b.id, b.number, b.activity_execution_id
--[any or correlated
    FROM bookmark b
--]
--[targeted
    FROM (SELECT f.* FROM bookmark f WHERE f.instance_id = $5 AND f.id < 'z' AND f.hash || '' = $3
          UNION ALL
          SELECT c.* FROM bookmark c WHERE c.instance_id = $5 AND c.id >= 'z' AND c.hash || '' = $3) b
--]
    WHERE b.tenant_id = $2 AND b.publishable AND b.number > $7 AND b.number <= $10
--[any
      AND b.hash = $3
--]
--[correlated
      AND b.hash = $3 AND hashtextextended(b.correlation_id, 0) = hashtextextended($4, 0) AND b.correlation_id = $4
--]
--[targeted
      AND ($4::text IS NULL OR b.correlation_id = $4)
--]
      AND ($6::text IS NULL OR b.activity_execution_id = $6)
    ORDER BY b.number
    LIMIT (SELECT r.rows FROM room r)
), owed AS MATERIALIZED (
    SELECT o.* FROM fan_out_owed o
    WHERE o.fan_out = $1 AND o.number > $7 AND o.number <= $10
    ORDER BY o.number
    LIMIT (SELECT r.rows FROM room r)
), page AS MATERIALIZED (
    -- A bookmark with another correlation id, or that took over the number of one that ended, may be in both.
    SELECT DISTINCT ON (e.number) e.*
    FROM (SELECT b.instance_id, b.id, b.number, b.activity_execution_id, true AS gets FROM bound b
          UNION ALL
          SELECT o.instance_id, o.bookmark_id, o.number, o.activity_execution_id,
                 coalesce((SELECT i.status = 0 /* running */ FROM instance i
                           WHERE i.id = o.instance_id AND i.tenant_id = o.tenant_id
                             AND i.created_at = o.instance_created_at LIMIT 1), false)
          FROM owed o) e
    ORDER BY e.number, e.gets DESC
    LIMIT (SELECT r.rows FROM room r)
), resumed AS (
    INSERT INTO work (tenant_id, instance_id, kind, fan_out, body)
    SELECT $2, p.instance_id, 2 /* stimulus */, $1,
           json_build_object('bookmarkId', p.id, 'hash', encode($3, 'hex'), 'name', $11::text,
                             'fanOut', $1)
    FROM page p
    WHERE p.gets AND NOT $12::boolean
    ORDER BY p.number
    RETURNING id
), dead_letters AS (
    INSERT INTO dead_letter (tenant_id, instance_id, kind, reason, inbox_id, hash, name, correlation_id,
                             activity_execution_id, body, failures, crashes, accepted_at)
    SELECT $2, coalesce($5::text, p.instance_id), 6 /* inbox */, 'the fan-out of an event could not make work of it: ' || $13::text,
           nextval(pg_get_serial_sequence('inbox', 'id')), $3, $11, $4::text, p.activity_execution_id,
           json_build_object('payload', f.payload), 0, 0, f.accepted_at
    FROM page p
    JOIN fan_out f ON f.id = $1
    WHERE p.gets AND $12
    RETURNING 1
), settled AS (
    -- With those that were inserted after their page, by a commit that began before it.
    DELETE FROM fan_out_owed o
    WHERE o.fan_out = $1 AND o.number <= coalesce((SELECT max(p.number) FROM page p), $7)
), counted AS MATERIALIZED (
    SELECT p.given, p.rows < r.rows AS is_last, f.resumed + f.started + p.given > 0 AS met
    FROM (SELECT count(*) AS rows, count(*) FILTER (WHERE q.gets) AS given FROM page q) p, room r, fan_out f
    WHERE f.id = $1
), moved AS (
    UPDATE fan_out f
    SET resumed = f.resumed + c.given,
        cursor = coalesce((SELECT max(p.number) FROM page p), f.cursor),
        last_work = greatest(f.last_work, (SELECT max(r.id) FROM resumed r)),
        first_work = coalesce((SELECT min(q.id) FROM queued q), f.last_work),
        began_at = CASE WHEN c.met OR NOT c.is_last THEN f.began_at END,
        cut = CASE WHEN c.met OR NOT c.is_last THEN f.cut END,
        finished_at = CASE WHEN c.met AND c.is_last THEN now() END
    FROM counted c
    WHERE f.id = $1
    RETURNING f.finished_at IS NOT NULL AS finished
)
SELECT (SELECT count(*) FROM resumed) AS resumed, (SELECT count(*) FROM dead_letters) AS dead_letters, m.finished,
       (SELECT r.rows FROM room r) AS room
FROM moved m
