-- purpose: read the oldest unfinished bulk action, except for those that this node pauses
-- caller:  store::bulk_action
-- index:   bulk_action_unfinished
-- locks:   none
SELECT b.tenant_id, b.id, b.deletes, b.filter, b.accepted_at, b.cut, b.cursor_at::text AS cursor_at, b.cursor_id, b.cursor_work
FROM bulk_action b
WHERE b.finished_at IS NULL AND b.id <> ALL ($1::text[])
ORDER BY b.accepted_at
LIMIT 1
