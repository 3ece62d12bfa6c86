-- purpose: running instances, among the newest 20,000, that no bookmark, work or dead letter continues
-- caller:  store::doctor::work
-- index:   instance_by_time, bookmark_pkey, work_instance, dead_letter_instance
-- locks:   none
-- $1: microseconds. An instance whose branches stopped with an incident waits to be repaired.
SELECT format('instance %s of definition %s runs, and nothing can wake it', i.id, i.definition_id) AS what, i.updated_at AS since,
       NULL::text AS remedy
FROM (SELECT * FROM instance o ORDER BY o.created_at DESC LIMIT 20000) i
WHERE i.status = 0 /* running */ AND NOT (i.sub_status = 2 /* suspended */ AND i.incident_count > 0)
  AND i.updated_at < now() - $1::bigint * interval '1 microsecond'
  AND NOT EXISTS (SELECT 1 FROM bookmark b WHERE b.instance_id = i.id AND b.tenant_id = i.tenant_id)
  AND NOT EXISTS (SELECT 1 FROM work w WHERE w.instance_id = i.id AND w.tenant_id = i.tenant_id)
  AND NOT EXISTS (SELECT 1 FROM dead_letter l WHERE l.instance_id = i.id AND l.tenant_id = i.tenant_id)
LIMIT 10
