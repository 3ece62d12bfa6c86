-- purpose: note which stimuli of the triggers just published the inbox keeps, and forget those of triggers that are gone
-- caller:  store::inbox_match, in the publishing transaction that holds the keys of these stimuli
-- index:   inbox_open, inbox_match_pkey
-- locks:   inbox_match, where a page of the definition may hold a row
WITH ended AS (
    DELETE FROM inbox_match m WHERE m.tenant_id = $1 AND m.definition_id = $2 AND m.hash <> ALL ($3::bytea[])
)
INSERT INTO inbox_match (tenant_id, definition_id, hash, cut)
SELECT $1, $2, k.hash, k.cut
FROM (SELECT t.hash, (SELECT x.id FROM inbox x
                      WHERE x.tenant_id = $1 AND x.hash = t.hash
                        AND coalesce(x.instance_id, x.activity_execution_id) IS NULL
                      ORDER BY x.id + 0 DESC LIMIT 1) AS cut
      FROM (SELECT DISTINCT u.hash FROM unnest($3) u(hash)) t) k
WHERE k.cut IS NOT NULL
ORDER BY k.hash
-- A match that is under way goes on, at its place.
ON CONFLICT (definition_id, hash, tenant_id) DO UPDATE SET cut = excluded.cut
