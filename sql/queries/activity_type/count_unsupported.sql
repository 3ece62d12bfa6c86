-- purpose: list published versions that no node with workers can run, with the number of rows that wait for them (up
--          to a thousand) and the activity types that the nodes miss
-- caller:  store::activity_type, once a minute
-- index:   work_ready, timer_due, instance_pkey
-- locks:   none
WITH runner AS MATERIALIZED (
    SELECT n.missing_activity_types FROM node n WHERE 'worker' = ANY (n.roles)
        AND n.last_seen >= clock_timestamp() - n.tolerance
), unsupported AS MATERIALIZED (
    SELECT d.tenant_id, d.version_id, d.definition_id, d.version,
           ARRAY(SELECT DISTINCT t FROM runner r, unnest(r.missing_activity_types) t
               WHERE t = ANY (d.activity_types) ORDER BY t) AS missing
    FROM definition d
    WHERE (d.was_published OR d.was_started)
      AND EXISTS (SELECT 1 FROM runner)
      AND NOT EXISTS (SELECT 1 FROM runner r WHERE NOT r.missing_activity_types && d.activity_types)
), waiting AS MATERIALIZED (
    (SELECT w.tenant_id, coalesce(w.version_id, (SELECT i.version_id FROM instance i
                                                 WHERE i.tenant_id = w.tenant_id AND i.id = w.instance_id)) AS version_id
     FROM work w
     WHERE EXISTS (SELECT 1 FROM unsupported) AND w.claimed_by IS NULL AND w.available_at <= now()
     ORDER BY w.available_at, w.id LIMIT 1000)
    UNION ALL
    (SELECT t.tenant_id, (SELECT i.version_id FROM instance i WHERE i.tenant_id = t.tenant_id AND i.id = t.instance_id)
     FROM timer t
     WHERE EXISTS (SELECT 1 FROM unsupported) AND t.claimed_by IS NULL AND t.available_at <= now()
     ORDER BY t.available_at LIMIT 1000)
)
SELECT n.definition_id, n.version, n.missing, count(*) AS waiting
FROM unsupported n
JOIN waiting w ON w.tenant_id = n.tenant_id AND w.version_id = n.version_id
GROUP BY n.definition_id, n.version, n.missing
ORDER BY n.definition_id, n.version
