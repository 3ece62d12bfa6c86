-- purpose: move a bulk action behind a page, to the instances once no start is left, or to its end
-- caller:  store::bulk_action, the last statement of a page
-- index:   bulk_action_pkey
-- locks:   none but the bulk action, which the caller holds
UPDATE bulk_action b
SET cursor_work = $3, cursor_at = $4::text::timestamptz, cursor_id = $5, processed = b.processed + $6, failed = b.failed + $7,
    cut = CASE WHEN $8::boolean AND b.cut IS NULL THEN now() ELSE b.cut END,
    finished_at = CASE WHEN $9::boolean THEN now() END
WHERE b.tenant_id = $1 AND b.id = $2
