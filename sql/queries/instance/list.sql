-- purpose: list instances: a page of them in an order, or how many there are, up to a bound, or how many the planner expects.
--          Filters that are not given are null and leave the plan; so it is planned for each call
-- caller:  store::instance::list
-- index:   instance_by_time, instance_by_version, instance_incident, instance_pkey, instance_name, instance_correlation, instance_name_trigrams,
--          instance_correlation_trigrams, instance_parent
-- locks:   none
--[estimate
EXPLAIN (FORMAT JSON)
--]
--[count
SELECT count(*) AS total FROM (
--]
SELECT i.id, i.definition_id, i.version_id, i.definition_version, i.status, i.sub_status, i.correlation_id, i.name,
    i.incident_count, i.created_at, i.updated_at, i.finished_at, i.parent_instance_id
FROM
--[each_version
    -- A few versions, each in the order of its index.
    unnest($2::text[]) v(id) CROSS JOIN LATERAL
--]
    (SELECT s.id, s.definition_id, s.version_id, s.definition_version, s.status, s.sub_status, s.correlation_id, s.name,
            s.incident_count, s.created_at, s.updated_at, s.finished_at, s.parent_instance_id
    FROM
--[few_running
    (SELECT b.instance_id FROM bookmark b UNION SELECT w.instance_id FROM work w UNION SELECT t.instance_id FROM timer t
     UNION SELECT d.instance_id FROM dead_letter d) r JOIN
--]
    instance s
--[few_running
    ON s.id = r.instance_id
--]
    WHERE s.tenant_id = $1
--[each_version
      AND s.version_id = v.id
--]
--[at_once
      AND ($2::text[] IS NULL OR s.version_id = ANY ($2))
--]
      AND ($3::text[] IS NULL OR s.id = ANY ($3))
      AND ($4::text[] IS NULL OR s.correlation_id = ANY ($4))
      AND ($5::text IS NULL OR s.name = $5)
      AND ($6::boolean IS NULL OR (s.incident_count > 0) = $6)
      AND ($6::boolean IS DISTINCT FROM true OR s.incident_count > 0)
      AND ($7::smallint[] IS NULL OR s.status = ANY ($7))
      AND ($8::smallint[] IS NULL OR s.sub_status = ANY ($8))
      AND ($9::timestamptz IS NULL OR s.created_at >= $9)
      AND ($10::timestamptz IS NULL OR s.created_at <= $10)
      AND ($11::timestamptz[] IS NULL OR s.created_at <> ALL ($11))
      AND ($12::timestamptz IS NULL OR s.updated_at >= $12)
      AND ($13::timestamptz IS NULL OR s.updated_at <= $13)
      AND ($14::timestamptz[] IS NULL OR s.updated_at <> ALL ($14))
      AND ($15::timestamptz IS NULL OR s.finished_at >= $15)
      AND ($16::timestamptz IS NULL OR s.finished_at <= $16)
      AND ($17::timestamptz[] IS NULL OR s.finished_at IS NULL OR s.finished_at <> ALL ($17))
--[search
      AND (s.id = $18 OR s.id >= $18 AND ($20::text = '' OR s.id < $20) AND starts_with(s.id, $18) OR s.version_id = ANY ($21)
--]
--[trigrams
           OR left(s.name, 256) ILIKE $19 OR left(s.correlation_id, 256) ILIKE $19
--]
--[beginnings
           OR s.name IS NOT NULL AND (left(s.name, 64) COLLATE "C") LIKE $19
           OR s.correlation_id IS NOT NULL AND (left(s.correlation_id, 64) COLLATE "C") LIKE $19
--]
--[search
          )
--]
--[correlations
      AND s.correlation_id IS NOT NULL
      AND (left(s.correlation_id, 64) COLLATE "C") = ANY (ARRAY(SELECT left(c.id, 64) FROM unnest($4) c(id)))
--]
--[name
      AND s.name IS NOT NULL AND (left(s.name, 64) COLLATE "C") = left($5, 64)
--]
--[parents
      AND s.parent_instance_id IS NOT NULL AND s.parent_instance_id = ANY ($26::text[])
--]
--[created_before
      AND s.created_at <= $24::text::timestamptz AND (s.created_at, s.id) < ($24::text::timestamptz, $25)
--]
--[created_after
      AND s.created_at >= $24::text::timestamptz AND (s.created_at, s.id) > ($24::text::timestamptz, $25)
--]
--[updated_before
      AND (s.updated_at, s.id) < ($24::text::timestamptz, $25)
--]
--[updated_after
      AND (s.updated_at, s.id) > ($24::text::timestamptz, $25)
--]
--[finished_before
      AND (coalesce(s.finished_at, 'infinity'), s.id) < ($24::text::timestamptz, $25)
--]
--[finished_after
      AND (coalesce(s.finished_at, 'infinity'), s.id) > ($24::text::timestamptz, $25)
--]
--[name_before
      AND (coalesce(s.name, ''), s.id) < ($24::text, $25)
--]
--[name_after
      AND (coalesce(s.name, ''), s.id) > ($24::text, $25)
--]
--[created_descending
    ORDER BY s.created_at DESC, s.id DESC
--]
--[created_ascending
    ORDER BY s.created_at, s.id
--]
--[updated_descending
    ORDER BY s.updated_at DESC, s.id DESC
--]
--[updated_ascending
    ORDER BY s.updated_at, s.id
--]
--[finished_descending
    ORDER BY coalesce(s.finished_at, 'infinity') DESC, s.id DESC
--]
--[finished_ascending
    ORDER BY coalesce(s.finished_at, 'infinity'), s.id
--]
--[name_descending
    ORDER BY coalesce(s.name, '') DESC, s.id DESC
--]
--[name_ascending
    ORDER BY coalesce(s.name, ''), s.id
--]
--[page
    LIMIT $22::bigint + $23::bigint
--]
--[count
    LIMIT $22::bigint
--]
    ) i
--[created_descending
ORDER BY i.created_at DESC, i.id DESC
--]
--[created_ascending
ORDER BY i.created_at, i.id
--]
--[updated_descending
ORDER BY i.updated_at DESC, i.id DESC
--]
--[updated_ascending
ORDER BY i.updated_at, i.id
--]
--[finished_descending
ORDER BY coalesce(i.finished_at, 'infinity') DESC, i.id DESC
--]
--[finished_ascending
ORDER BY coalesce(i.finished_at, 'infinity'), i.id
--]
--[name_descending
ORDER BY coalesce(i.name, '') DESC, i.id DESC
--]
--[name_ascending
ORDER BY coalesce(i.name, ''), i.id
--]
--[page
LIMIT $22::bigint OFFSET $23::bigint
--]
--[count
) n
--]
