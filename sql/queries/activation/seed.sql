-- purpose: add the activation keys of running instances and accepted starts to a strategy that was published after
--          them
-- caller:  store::activation, in a transaction that begins after all that cannot see the publish have ended
-- index:   instance_by_version, activation_key
-- locks:   activation rows that are not exclusive, by instance; waits for commits that write the same one
WITH counted AS MATERIALIZED (
    SELECT i.id, i.definition_id, nullif(i.correlation_id, '') AS correlation_id
    FROM instance i
    WHERE $3::smallint < 3 /* correlation */ AND i.tenant_id = $1 AND i.definition_id = $2 AND i.status = 0 /* running */
      AND i.version_id = ANY (ARRAY(SELECT d.version_id FROM definition d
                                    WHERE d.tenant_id = $1 AND d.definition_id = $2))
    UNION ALL
    SELECT i.id, i.definition_id, i.correlation_id
    FROM instance i
    WHERE $3 = 3 /* correlation */ AND i.tenant_id = $1 AND i.correlation_id <> '' AND i.status = 0 /* running */
    UNION ALL
    SELECT w.instance_id, w.definition_id, nullif(w.body->>'correlationId', '')
    FROM work w
    WHERE w.tenant_id = $1 AND w.kind = 0 /* start */ AND w.definition_id IS NOT NULL
        AND ($3 = 3 /* correlation */ OR w.definition_id = $2)
)
INSERT INTO activation (tenant_id, key, instance_id, exclusive, strategy, definition_id, correlation_id)
SELECT $1, activation_key($3, c.definition_id, c.correlation_id), c.id, false, $3, c.definition_id,
       CASE WHEN $3 > 1 /* singleton */ THEN c.correlation_id END
FROM counted c
WHERE activation_key($3, c.definition_id, c.correlation_id) IS NOT NULL
ORDER BY c.id
ON CONFLICT DO NOTHING
