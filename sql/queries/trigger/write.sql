-- purpose: insert the triggers of the published version
-- caller:  store::definition::save, in the publishing transaction
-- index:   trigger_pkey
-- locks:   trigger
INSERT INTO trigger (tenant_id, definition_id, activity_id, hash, name, payload)
SELECT $1, $2, t.activity_id, t.hash, t.name, t.payload
FROM unnest($3::text[], $4::bytea[], $5::text[], $6::json[]) t(activity_id, hash, name, payload)
ON CONFLICT DO NOTHING
