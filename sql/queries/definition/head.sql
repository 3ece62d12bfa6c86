-- purpose: read the newest version of a definition and the number of the published one, before a save or publish
-- caller:  store::definition, in the transaction that holds the definition's lock
-- index:   definition_latest, definition_published
-- locks:   none
SELECT d.version_id, d.version, d.is_published, d.was_published, d.was_started, d.body,
       (SELECT p.version FROM definition p
        WHERE p.tenant_id = $1 AND p.definition_id = $2 AND p.is_published) AS published_version,
       (SELECT max(m.version) FROM definition m WHERE m.tenant_id = $1 AND m.definition_id = $2) AS max_version,
       d.created_at, d.is_readonly, d.is_system
FROM definition d
WHERE d.tenant_id = $1 AND d.definition_id = $2 AND d.is_latest
