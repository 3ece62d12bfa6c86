-- purpose: find a published endpoint of another definition with one of these stimuli, and the bytes that the regular expressions of
--          all published routes take
-- caller:  store::route, in the publishing transaction, which holds the trigger keys of the stimuli: a competing publish was
--          committed before this snapshot, or waits
-- index:   trigger_route, definition_published, trigger_patterns
-- locks:   none
SELECT o.definition_id, o.name, o.payload,
       coalesce((SELECT sum(p.pattern_bytes) FROM trigger p WHERE p.pattern_bytes > 0 AND p.tenant_id || '' = $1), 0)::bigint
           AS pattern_bytes
FROM (SELECT 1) one
LEFT JOIN LATERAL (
    SELECT t.definition_id, d.name, t.payload
    FROM unnest($3::bytea[]) h(hash)
    JOIN trigger t ON t.hash = h.hash AND t.tenant_id = $1 AND t.name = 'Elsa.HttpEndpoint' AND t.definition_id <> $2
    LEFT JOIN definition d ON d.tenant_id = t.tenant_id AND d.definition_id = t.definition_id AND d.is_published
    LIMIT 1) o ON true
