-- purpose: list bulk actions, unfinished ones first, then those that finished last; or the one with an id
-- caller:  store::bulk_action
-- index:   bulk_action_unfinished, bulk_action_finished, bulk_action_pkey
-- locks:   none
SELECT b.id, b.deletes, b.filter, b.accepted_at, b.cut, b.processed, b.failed, b.finished_at, now() AS at
FROM bulk_action b
WHERE b.tenant_id = $1 AND ($2::text IS NULL OR b.id = $2)
ORDER BY b.finished_at IS NOT NULL, b.finished_at DESC, b.accepted_at
LIMIT $3
