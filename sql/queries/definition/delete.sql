-- purpose: delete versions of a definition for the API, increase the revision, and notify all nodes of it. The rows
--          stay until nothing runs on them
-- caller:  store::definition::delete, in the transaction that holds the definition's lock
-- index:   definition_pkey, revision_pkey
-- locks:   definition, then revision; at the commit, the global lock of NOTIFY
WITH deleted AS (
    UPDATE definition SET deleted_at = now(), is_latest = false, is_published = false
    WHERE tenant_id = $1 AND definition_id = $2 AND version_id = ANY ($3::text[]) AND deleted_at IS NULL
    RETURNING version_id
), counted AS (
    UPDATE revision SET revision = revision + 1 WHERE EXISTS (SELECT 1 FROM deleted) RETURNING revision
)
SELECT pg_notify(channel_name('s'),
                 json_build_object('revision', c.revision, 'tenant', $1::text, 'definition', $2::text)::text)::text
FROM counted c
