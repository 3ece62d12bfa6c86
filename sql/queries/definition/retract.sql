-- purpose: unpublish the published version, increase the revision, and notify all nodes of it
-- caller:  store::definition::retract, in the transaction that holds the definition's lock
-- index:   definition_published, revision_pkey
-- locks:   definition, then revision; at the commit, the global lock of NOTIFY
WITH retracted AS (
    UPDATE definition SET is_published = false WHERE tenant_id = $1 AND definition_id = $2 AND is_published
    RETURNING version_id
), counted AS (
    UPDATE revision SET revision = revision + 1 WHERE EXISTS (SELECT 1 FROM retracted) RETURNING revision
)
SELECT pg_notify(channel_name('s'),
                 json_build_object('revision', c.revision, 'tenant', $1::text, 'definition', $2::text)::text)::text
FROM counted c
