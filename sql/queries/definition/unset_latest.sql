-- purpose: unset is_latest of the newest version; if that is the published one and stays published ($3), increase the
--          revision and notify all nodes
-- caller:  store::definition::save, in the transaction that holds the definition's lock
-- index:   definition_latest, revision_pkey
-- locks:   definition, then revision; at the commit, the global lock of NOTIFY
WITH before AS (
    UPDATE definition SET is_latest = false WHERE tenant_id = $1 AND definition_id = $2 AND is_latest
    RETURNING is_published
), counted AS (
    UPDATE revision SET revision = revision + 1
    WHERE $3::boolean AND EXISTS (SELECT 1 FROM before b WHERE b.is_published)
    RETURNING revision
)
SELECT pg_notify(channel_name('s'),
                 json_build_object('revision', c.revision, 'tenant', $1::text, 'definition', $2::text)::text)
FROM counted c
