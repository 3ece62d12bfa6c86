-- purpose: read why each loser of a batch lost, in a snapshot that is newer than that of the batch
-- caller:  store::commit::pipeline
-- index:   fence_pkey, instance_pkey, work_pkey, work_instance, work_begun, timer_pkey, activation_instance
-- locks:   none
SELECT r.no,
       EXISTS (SELECT 1 FROM fence f WHERE f.incarnation = $1 AND f.writer = $2) AS is_registered,
       i.version,
       i.last_burst IS NOT DISTINCT FROM r.burst AS is_committed,
       (SELECT count(*)
        FROM unnest($4::commit_claim[]) c
        WHERE c.no = r.no AND (
            EXISTS (SELECT 1 FROM work w WHERE w.tenant_id = r.tenant_id AND w.id = c.work_id
                    AND w.claimed_by = $1 AND w.claim_no = c.claim_no)
            OR EXISTS (SELECT 1 FROM timer t WHERE t.tenant_id = r.tenant_id
                       AND t.instance_id = coalesce(n.root_instance_id, r.instance_id)
                       AND t.id = c.timer_id AND t.claimed_by = $1 AND t.claim_no = c.claim_no)))
           = coalesce(n.claims, r.claims) AS is_claimed,
       -- Of a child in the burst of its parent: the outermost one is as it was.
       CASE WHEN n.expected > 0
            THEN EXISTS (SELECT 1 FROM instance p WHERE p.tenant_id = r.tenant_id AND p.id = n.root_instance_id
                         AND p.version = n.expected)
            ELSE true END AS is_under,
       (SELECT max(w.id)
        FROM (SELECT s.id, s.kind, s.claimed_by FROM work s
              WHERE s.tenant_id = r.tenant_id AND s.instance_id = r.instance_id AND work_order(s.id, s.definition_id) = 0
              UNION ALL
              SELECT b.id, b.kind, b.claimed_by FROM work b
              WHERE b.tenant_id = r.tenant_id AND b.instance_id = r.instance_id
                AND b.has_begun AND b.definition_id IS NULL AND b.id > 0) w
        WHERE w.kind = 4 /* continue */ AND w.claimed_by = $1) AS continued,
       i.created_at, i.updated_at,
       (SELECT true FROM activation a WHERE a.instance_id = r.instance_id AND a.tenant_id = r.tenant_id
           LIMIT 1) AS is_holder
FROM unnest($3::commit_request[]) r
LEFT JOIN unnest($5::commit_nested[]) n ON n.no = r.no
LEFT JOIN instance i ON i.tenant_id = r.tenant_id AND i.id = r.instance_id
