-- purpose: list what was given up, newest first, with how many there are
-- caller:  store::dead_letter
-- index:   dead_letter_pkey
-- locks:   none
SELECT d.id, d.instance_id, d.kind, d.reason, d.created_at, d.failures, d.crashes, d.body
FROM dead_letter d
WHERE d.tenant_id = $1
ORDER BY d.id DESC
LIMIT $2 OFFSET $3
