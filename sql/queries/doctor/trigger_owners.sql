-- purpose: triggers and schedules of definitions that have no published version
-- caller:  store::doctor::work
-- index:   definition_published
-- locks:   none
SELECT o.what, NULL::timestamptz AS since, NULL::text AS remedy
FROM (SELECT format('the trigger %s of definition %s has no published version', t.activity_id, t.definition_id) AS what
      FROM trigger t
      WHERE NOT EXISTS (SELECT 1 FROM definition d
                        WHERE d.tenant_id = t.tenant_id AND d.definition_id = t.definition_id AND d.is_published)
      UNION ALL
      SELECT format('the schedule %s of definition %s has no published version', s.id, s.definition_id)
      FROM schedule s
      WHERE NOT EXISTS (SELECT 1 FROM definition d
                        WHERE d.tenant_id = s.tenant_id AND d.definition_id = s.definition_id AND d.is_published)) o
ORDER BY o.what
LIMIT 10
