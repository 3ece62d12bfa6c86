-- purpose: read the request that was accepted under an idempotency key
-- caller:  store::request
-- index:   idempotency_key_pkey
-- locks:   none
SELECT q.fingerprint, q.instance_id, q.work_id FROM idempotency_key q
WHERE q.tenant_id = $1 AND q.route = $2 AND q.key = $3 AND q.expires_at > now()
