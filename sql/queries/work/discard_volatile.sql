-- purpose: delete a claimed row whose request is lost with the files of its process, together with its idempotency key: the
--          client may send it again
-- caller:  store::claim
-- index:   work_pkey, activation_instance, idempotency_key_pkey
-- locks:   work by id, then activation, then idempotency_key; one row at a time
WITH deleted AS (
    DELETE FROM work w
    WHERE w.tenant_id = $2 AND w.id = $3 AND w.claimed_by = $1 AND w.claim_no = $4
    RETURNING w.tenant_id, w.instance_id, w.kind, w.id
), freed AS (
    -- Of a start: it has not become an instance.
    DELETE FROM activation a USING deleted g
    WHERE g.kind = 0 /* start */ AND a.tenant_id = g.tenant_id AND a.instance_id = g.instance_id
)
DELETE FROM idempotency_key q USING deleted g
WHERE q.tenant_id = g.tenant_id AND q.route = $5 AND q.key = $6 AND q.instance_id = g.instance_id
  AND coalesce(q.work_id = g.id, true)
