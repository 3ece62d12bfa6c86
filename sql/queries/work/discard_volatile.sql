-- purpose: delete a row of a request whose files are lost, or whose client receives that it was not run, together with its
--          idempotency key: the client may send it again. Callers of the row find it noted as discarded. Else whether its
--          instance goes on by it: a burst of it was committed
-- caller:  store::claim, for a row that $1 has claimed; or for one without a claim, of which no burst runs or has begun
-- index:   work_pkey, activation_instance, idempotency_key_pkey
-- locks:   work by id, then activation, then idempotency_key; one row at a time
WITH deleted AS (
    DELETE FROM work w
    WHERE w.tenant_id = $2 AND w.id = $3 AND w.instance_id = $7
      AND w.claimed_by IS NOT DISTINCT FROM $1::bigint AND coalesce(w.claim_no = $4::bigint, true)
      AND w.kind IN (0 /* start */, 1 /* resume */) AND ($1::bigint IS NOT NULL OR NOT w.has_begun)
    RETURNING w.tenant_id, w.instance_id, w.kind, w.id
), freed AS (
    -- Of a start: it has not become an instance.
    DELETE FROM activation a USING deleted g
    WHERE g.kind = 0 /* start */ AND a.tenant_id = g.tenant_id AND a.instance_id = g.instance_id
), noted AS (
    INSERT INTO unmatched_work (tenant_id, work_id, discarded) SELECT g.tenant_id, g.id, true FROM deleted g
), withdrawn AS (
    DELETE FROM idempotency_key q USING deleted g
    WHERE q.tenant_id = g.tenant_id AND q.route = $5 AND q.key = $6 AND q.instance_id = g.instance_id
      AND coalesce(q.work_id = g.id, true)
)
SELECT EXISTS (SELECT 1 FROM deleted) AS is_discarded,
       EXISTS (SELECT 1 FROM work w WHERE w.tenant_id = $2 AND w.id = $3 AND w.instance_id = $7
               AND w.kind = 4 /* continue */) AS continues
