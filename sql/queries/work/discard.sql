-- purpose: delete claimed work that can have no effect: a start whose instance exists
-- caller:  store::claim
-- index:   work_pkey, activation_instance, instance_pkey
-- locks:   work by id, then activation
WITH deleted AS (
    DELETE FROM work w
    USING unnest($2::text[], $3::bigint[], $4::bigint[]) r(tenant_id, id, claim_no)
    WHERE w.tenant_id = r.tenant_id AND w.id = r.id AND w.claimed_by = $1 AND w.claim_no = r.claim_no
    RETURNING w.tenant_id, w.instance_id, w.kind
)
-- The key that the start held, unless the existing instance may hold the same.
DELETE FROM activation a
USING deleted g
WHERE g.kind = 0 /* start */ AND a.tenant_id = g.tenant_id AND a.instance_id = g.instance_id
  AND NOT EXISTS (SELECT 1 FROM instance i
                  WHERE i.tenant_id = a.tenant_id AND i.id = a.instance_id AND i.status = 0 /* running */
                    AND i.definition_id = a.definition_id
                    AND (a.strategy = 1 /* singleton */
                         OR a.correlation_id IS NOT DISTINCT FROM nullif(i.correlation_id, '')))
