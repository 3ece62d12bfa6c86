-- purpose: publish a version: it alone is published, and the revision counts one more
-- caller:  store::definition, in the transaction that holds the definition's lock
-- index:   definition_published, definition_pkey, revision_pkey
-- locks:   definition, then revision
WITH before AS (
    UPDATE definition SET is_published = false
    WHERE tenant_id = $1 AND definition_id = $2 AND is_published AND version_id <> $3
)
UPDATE revision SET revision = revision + 1
