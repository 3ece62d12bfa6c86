-- purpose: keep the resume links of the bursts that have won, which alone are the last ones of their instances. Each expires at its
--          time, or so many microseconds after the commit
-- caller:  store::commit::links, after the batch, in its transaction
-- index:   resume_link_pkey, instance_pkey
-- locks:   resume_link by id
INSERT INTO resume_link (id, tenant_id, instance_id, generation, bookmark_id, event, uses, uses_left, expires_at, signed_by)
SELECT n.id, n.tenant_id, n.instance_id, (extract(epoch FROM w.created_at) * 1000000)::bigint, n.bookmark_id, n.event, n.uses,
       n.uses, coalesce(n.expires_at, now() + n.lifetime * interval '1 microsecond'), n.signed_by
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::uuid[], $5::text[], $6::text[], $7::integer[], $8::bigint[], $9::timestamptz[],
            $10::integer[])
    n(id, tenant_id, instance_id, burst, bookmark_id, event, uses, lifetime, expires_at, signed_by)
CROSS JOIN LATERAL (
    SELECT i.created_at FROM instance i
    WHERE i.id = n.instance_id AND i.tenant_id = n.tenant_id AND i.last_burst = n.burst LIMIT 1) w
ORDER BY n.id
ON CONFLICT DO NOTHING
