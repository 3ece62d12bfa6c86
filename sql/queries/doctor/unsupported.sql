-- purpose: published versions that no live node with workers can run, with the activity types that the nodes miss
-- caller:  store::doctor::work
-- index:   none (reads every version, but not its body)
-- locks:   none
WITH runner AS MATERIALIZED (
    SELECT n.missing_activity_types FROM node n WHERE 'worker' = ANY (n.roles) AND n.last_seen >= clock_timestamp() - n.tolerance
)
SELECT format('no live node can run definition %s, version %s: none has %s', d.definition_id, d.version,
              (SELECT string_agg(DISTINCT t, ', ') FROM runner r, unnest(r.missing_activity_types) t
               WHERE t = ANY (d.activity_types))) AS what,
       d.created_at AS since, NULL::text AS remedy
FROM definition d
WHERE d.is_published AND d.activity_types IS NOT NULL AND EXISTS (SELECT 1 FROM runner)
  AND NOT EXISTS (SELECT 1 FROM runner r WHERE NOT r.missing_activity_types && d.activity_types)
ORDER BY d.definition_id
LIMIT 10
