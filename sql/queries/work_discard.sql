-- purpose: throw away claimed instructions that can have no effect: a start whose instance exists
-- caller:  store::claim
-- index:   work_pkey
-- locks:   work by id
DELETE FROM work w
USING unnest($2::text[], $3::bigint[], $4::bigint[]) r(tenant_id, id, claim_no)
WHERE w.tenant_id = r.tenant_id AND w.id = r.id AND w.claimed_by = $1 AND w.claim_no = r.claim_no
