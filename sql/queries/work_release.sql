-- purpose: hand claimed rows back, with the blame and the back-off that the burst earned
-- caller:  store::claim
-- index:   work_pkey, timer_pkey
-- locks:   work by id, then timer by id
WITH returned AS MATERIALIZED (
    SELECT * FROM unnest($2::text[], $3::text[], $4::bigint[], $5::text[], $6::bigint[])
        u(tenant_id, instance_id, work_id, timer_id, claim_no)
), work_back AS (
    UPDATE work w
    SET claimed_by = NULL, failures = w.failures + $7, available_at = now() + $8::bigint * interval '1 microsecond'
    FROM returned r
    WHERE w.tenant_id = r.tenant_id AND w.id = r.work_id AND w.claimed_by = $1 AND w.claim_no = r.claim_no
    RETURNING 1
), timer_back AS (
    UPDATE timer t
    SET claimed_by = NULL, failures = t.failures + $7, available_at = now() + $8::bigint * interval '1 microsecond'
    FROM returned r
    WHERE t.tenant_id = r.tenant_id AND t.instance_id = r.instance_id AND t.id = r.timer_id AND t.claimed_by = $1
      AND t.claim_no = r.claim_no
    RETURNING 1
)
SELECT (SELECT count(*) FROM work_back) + (SELECT count(*) FROM timer_back)
