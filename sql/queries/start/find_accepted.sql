-- purpose: list the starts, of those whose acceptance is in doubt, that were accepted: as a row of work, with whether
--          it is still claimed by this incarnation as at its insert; or as an instance
-- caller:  store::start::doubt
-- index:   work_instance, instance_pkey
-- locks:   none
SELECT s.no::integer, w.id, w.version_id, w.definition_version,
       coalesce(w.claimed_by = $1 AND w.claim_no = 1, false) AS as_born, now() AS asked_at
FROM unnest($2::text[], $3::text[]) WITH ORDINALITY s(tenant_id, instance_id, no)
LEFT JOIN LATERAL (SELECT w.id, w.version_id, w.definition_version, w.claimed_by, w.claim_no FROM work w
                   WHERE w.tenant_id = s.tenant_id AND w.instance_id = s.instance_id AND work_order(w.id, w.definition_id) = 0
                   LIMIT 1) w ON true
WHERE w.id IS NOT NULL
   OR (SELECT true FROM instance i WHERE i.tenant_id = s.tenant_id AND i.id = s.instance_id LIMIT 1)
