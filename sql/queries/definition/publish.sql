-- purpose: unpublish the other version, increase the revision, and notify all nodes of it
-- caller:  store::definition::save, in the transaction that holds the definition's lock
-- index:   definition_published, definition_pkey, revision_pkey
-- locks:   definition, then revision; at the commit, the global lock of NOTIFY
WITH before AS (
    UPDATE definition SET is_published = false
    WHERE tenant_id = $1 AND definition_id = $2 AND is_published AND version_id <> $3
    RETURNING activation_strategy, seeding
), counted AS (
    UPDATE revision SET revision = revision + 1 RETURNING revision
)
SELECT pg_notify(channel_name('s'),
                 json_build_object('revision', c.revision, 'tenant', $1::text, 'definition', $2::text)::text)::text,
       (SELECT b.activation_strategy FROM before b) AS activation_strategy, (SELECT b.seeding FROM before b) AS seeding
FROM counted c
