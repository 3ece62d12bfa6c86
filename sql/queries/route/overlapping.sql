-- purpose: list the published endpoints of other definitions whose templates may match a path in common with those of these
--          outlines
-- caller:  store::route::overlap, in the publishing transaction after it has increased the revision: a competing publish was committed
--          before this snapshot, or waits
-- index:   trigger_outline, definition_published
-- locks:   none
SELECT o.no::integer, t.definition_id, d.name, t.payload
FROM unnest($3::bytea[]) WITH ORDINALITY o(outline, no)
JOIN trigger t ON t.outline = o.outline AND t.tenant_id = $1 AND t.definition_id <> $2
LEFT JOIN definition d ON d.tenant_id = t.tenant_id AND d.definition_id = t.definition_id AND d.is_published
LIMIT $4
