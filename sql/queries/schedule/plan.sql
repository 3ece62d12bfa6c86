-- purpose: insert the schedules that are new, and update those that changed; what has fired, and whether it is
--          paused, stays
-- caller:  store::schedule, in the publishing transaction
-- index:   schedule_pkey
-- locks:   schedule, locked before
INSERT INTO schedule AS s (tenant_id, id, definition_id, activity_id, activity_type, spec, overlap, anchor, tz_version,
                           next_occurrence, next_fire)
SELECT $1, p.id, $2, p.activity_id, p.activity_type, p.spec, p.overlap, p.anchor, p.tz_version, p.next_occurrence,
       p.next_fire
FROM unnest($3::schedule_plan[]) p
ON CONFLICT (tenant_id, id) DO UPDATE
    SET version = s.version + 1, activity_type = excluded.activity_type, spec = excluded.spec,
        overlap = excluded.overlap, anchor = excluded.anchor, tz_version = excluded.tz_version,
        next_occurrence = excluded.next_occurrence, next_fire = excluded.next_fire
