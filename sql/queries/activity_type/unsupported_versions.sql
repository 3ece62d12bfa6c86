-- purpose: list versions that were published and use an activity type that is not in $1, with those types
-- caller:  store::activity_type, when the revision has changed
-- index:   none (reads every version, but not its body)
-- locks:   none
SELECT d.tenant_id, d.version_id, ARRAY(SELECT t FROM unnest(d.activity_types) t WHERE t <> ALL ($1::text[])) AS missing
FROM definition d
WHERE (d.was_published OR d.was_started) AND NOT d.activity_types <@ $1::text[]
