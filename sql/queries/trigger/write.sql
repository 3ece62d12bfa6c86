-- purpose: insert the triggers of the published version
-- caller:  store::definition::save, in the publishing transaction, after it has increased the revision
-- index:   trigger_pkey, trigger_route, revision_pkey
-- locks:   trigger
INSERT INTO trigger (tenant_id, definition_id, activity_id, hash, name, payload, pattern_bytes, outline, revision)
SELECT $1, $2, t.activity_id, t.hash, t.name, t.payload, t.pattern_bytes, t.outline, r.revision
FROM revision r
CROSS JOIN unnest($3::text[], $4::bytea[], $5::text[], $6::json[], $7::integer[],
                  $8::bytea[]) t(activity_id, hash, name, payload, pattern_bytes, outline)
WHERE r.only_row
-- Not of a route that another definition has.
ON CONFLICT (definition_id, activity_id, hash, tenant_id) DO NOTHING
