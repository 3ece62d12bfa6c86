-- purpose: accept a cancel of an instance and fence the burst that may be running it, in one statement: by the
--          version of the instance, or, before its first commit, by the claim on its start
-- caller:  store::work
-- index:   instance_pkey, work_instance
-- locks:   instance or the start, then work
WITH fenced AS (
    UPDATE instance SET version = version + 1 WHERE tenant_id = $1 AND id = $2 AND status = 0 /* running */ RETURNING id
), unclaimed AS (
    UPDATE work w SET claimed_by = NULL, claim_no = w.claim_no + 1, available_at = now()
    WHERE w.tenant_id = $1 AND w.instance_id = $2 AND w.kind = 0 /* start */ AND work_order(w.id, w.definition_id) = 0
    RETURNING w.id
), known AS (
    SELECT 1 FROM fenced
    UNION ALL
    SELECT 1 FROM unclaimed
), made AS (
    -- The id of a cancel is negative: a claim reads the rows of an instance in the order of work_instance, and takes the
    -- cancel first.
    INSERT INTO work (tenant_id, id, instance_id, kind, body) OVERRIDING SYSTEM VALUE
    SELECT $1, -nextval('work_id_seq'), $2, 3 /* cancel */, '{}' WHERE EXISTS (SELECT 1 FROM known)
    RETURNING id
)
SELECT (SELECT id FROM made) AS id,
       EXISTS (SELECT 1 FROM instance i WHERE i.tenant_id = $1 AND i.id = $2) AS is_known
