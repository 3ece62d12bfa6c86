-- purpose: settings and services that differ between live nodes and should not
-- caller:  store::doctor::cluster
-- index:   none (a handful of rows)
-- locks:   none
WITH live AS MATERIALIZED (
    SELECT n.* FROM node n WHERE n.last_seen >= clock_timestamp() - n.tolerance
), setting AS (
    SELECT n.node_id, n.started_at, s.key AS name, s.value, true AS is_shown
    FROM live n CROSS JOIN LATERAL json_each_text(n.facts->'settings') s
    UNION ALL
    SELECT n.node_id, n.started_at, s.name, s.value, true
    FROM live n
    CROSS JOIN LATERAL (VALUES ('lock-provider', n.lock_domain), ('signal', n.signal_domain), ('wake', n.wake_domain)) s(name, value)
    WHERE s.value <> ''
    UNION ALL
    -- Digests say nothing to a reader.
    SELECT n.node_id, n.started_at, split_part(s.pair, '=', 1), split_part(s.pair, '=', 2), false
    FROM live n CROSS JOIN LATERAL unnest(n.identity_settings) s(pair)
)
SELECT s.name || ' differs: ' || CASE WHEN bool_and(s.is_shown) THEN string_agg(s.node_id || ' has ' || s.value, ', ' ORDER BY s.node_id)
                                      ELSE 'nodes ' || string_agg(s.node_id, ', ' ORDER BY s.node_id) END AS what,
       max(s.started_at) AS since, NULL::text AS remedy
FROM setting s
GROUP BY s.name
HAVING count(DISTINCT s.value) > 1
ORDER BY s.name
LIMIT 10
