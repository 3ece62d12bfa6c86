-- purpose: lock a bulk action where it was read: no row if another node is at it or has gone further
-- caller:  store::bulk_action, the first statement of a page
-- index:   bulk_action_pkey
-- locks:   bulk_action; a locked one is skipped
SELECT b.id
FROM bulk_action b
WHERE b.tenant_id = $1 AND b.id = $2 AND b.finished_at IS NULL AND b.cursor_work = $3
  AND b.cursor_id IS NOT DISTINCT FROM $4::text AND (b.cut IS NULL) = $5::boolean
FOR UPDATE SKIP LOCKED
