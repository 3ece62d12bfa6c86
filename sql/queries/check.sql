-- purpose: prove the invariants: each row is one that is broken, with how often and one example
-- caller:  store::check
-- index:   scans everything; for tests and for an operator's rare look
-- locks:   none
SELECT v.invariant, v.count, v.sample
FROM (
    SELECT 'bookmark-without-instance' AS invariant, count(*) AS count, min(b.instance_id || '/' || b.id) AS sample
    FROM bookmark b
    WHERE NOT EXISTS (SELECT 1 FROM instance i WHERE i.tenant_id = b.tenant_id AND i.id = b.instance_id AND i.status = 0)
    UNION ALL
    SELECT 'timer-without-bookmark', count(*), min(t.instance_id || '/' || t.id)
    FROM timer t
    WHERE NOT EXISTS (SELECT 1 FROM bookmark b
                      WHERE b.tenant_id = t.tenant_id AND b.instance_id = t.instance_id AND b.id = t.id)
    UNION ALL
    SELECT 'delay-without-timer', count(*), min(b.instance_id || '/' || b.id)
    FROM bookmark b
    WHERE NOT b.publishable AND b.name = 'Elsa.Delay'
      AND NOT EXISTS (SELECT 1 FROM timer t
                      WHERE t.tenant_id = b.tenant_id AND t.instance_id = b.instance_id AND t.id = b.id)
    UNION ALL
    SELECT 'running-without-reason', count(*), min(i.id)
    FROM instance i
    WHERE i.status = 0
      AND NOT EXISTS (SELECT 1 FROM bookmark b WHERE b.tenant_id = i.tenant_id AND b.instance_id = i.id)
      AND NOT EXISTS (SELECT 1 FROM work w WHERE w.tenant_id = i.tenant_id AND w.instance_id = i.id)
    UNION ALL
    SELECT 'claim-of-unknown-incarnation', count(*), min(c.what)
    FROM (SELECT w.claimed_by, 'work ' || w.id AS what FROM work w WHERE w.claimed_by IS NOT NULL
          UNION ALL
          SELECT t.claimed_by, 'timer ' || t.instance_id || '/' || t.id FROM timer t WHERE t.claimed_by IS NOT NULL) c
    WHERE NOT EXISTS (SELECT 1 FROM node n WHERE n.incarnation = c.claimed_by)
      AND NOT EXISTS (SELECT 1 FROM departed d WHERE d.incarnation = c.claimed_by)
    UNION ALL
    SELECT 'fence-without-node', count(*), min(f.incarnation::text)
    FROM fence f WHERE NOT EXISTS (SELECT 1 FROM node n WHERE n.incarnation = f.incarnation)
    UNION ALL
    SELECT 'node-departed-and-alive', count(*), min(n.incarnation::text)
    FROM node n WHERE EXISTS (SELECT 1 FROM departed d WHERE d.incarnation = n.incarnation)
    UNION ALL
    SELECT 'instance-without-state', count(*), min(i.id)
    FROM instance i
    WHERE NOT EXISTS (SELECT 1 FROM instance_state s WHERE s.tenant_id = i.tenant_id AND s.id = i.id)
    UNION ALL
    SELECT 'state-without-instance', count(*), min(s.id)
    FROM instance_state s
    WHERE NOT EXISTS (SELECT 1 FROM instance i WHERE i.tenant_id = s.tenant_id AND i.id = s.id)
    UNION ALL
    SELECT 'start-of-existing-instance', count(*), min(w.instance_id)
    FROM work w
    WHERE w.kind = 0 AND w.claimed_by IS NULL
      AND EXISTS (SELECT 1 FROM instance i WHERE i.tenant_id = w.tenant_id AND i.id = w.instance_id)
    UNION ALL
    SELECT 'work-without-instance', count(*), min(w.instance_id || '/' || w.id)
    FROM work w
    WHERE w.kind <> 0
      AND NOT EXISTS (SELECT 1 FROM instance i WHERE i.tenant_id = w.tenant_id AND i.id = w.instance_id)
      AND NOT EXISTS (SELECT 1 FROM work s WHERE s.tenant_id = w.tenant_id AND s.instance_id = w.instance_id AND s.kind = 0)
    UNION ALL
    SELECT 'status-mismatch', count(*), min(i.id)
    FROM instance i WHERE (i.status = 1) <> (i.sub_status >= 3) OR (i.status = 1) <> (i.finished_at IS NOT NULL)
    UNION ALL
    SELECT 'journal-without-instance', count(*), min(j.instance_id)
    FROM (SELECT DISTINCT tenant_id, instance_id FROM journal) j
    WHERE NOT EXISTS (SELECT 1 FROM instance i WHERE i.tenant_id = j.tenant_id AND i.id = j.instance_id)
    UNION ALL
    SELECT 'journal-ahead-of-instance', count(*), min(j.instance_id)
    FROM (SELECT tenant_id, instance_id, max(version) AS version FROM journal GROUP BY 1, 2) j
    JOIN instance i ON i.tenant_id = j.tenant_id AND i.id = j.instance_id
    WHERE j.version > i.version
    UNION ALL
    SELECT 'journal-not-contiguous', count(*), min(j.instance_id)
    FROM (SELECT tenant_id, instance_id, count(*) AS entries, max(sequence) - min(sequence) + 1 AS span
          FROM journal GROUP BY 1, 2) j
    WHERE j.entries <> j.span
    UNION ALL
    SELECT 'activity-ended-twice', count(*), min(e.instance_id || '/' || e.activity_execution_id)
    FROM (SELECT j.tenant_id, j.instance_id, j.activity_execution_id
          FROM journal j WHERE j.event_name IN ('Completed', 'Faulted', 'Canceled') AND j.activity_execution_id <> ''
          GROUP BY 1, 2, 3, j.event_name HAVING count(*) > 1) e
    UNION ALL
    SELECT 'unfinished-in-finished-instance', count(*), min(t.instance_id)
    FROM timer t JOIN instance i ON i.tenant_id = t.tenant_id AND i.id = t.instance_id
    WHERE i.status = 1
    UNION ALL
    SELECT 'bookmark-missed-its-stimulus', count(*), min(b.instance_id || '/' || b.id)
    FROM bookmark b
    WHERE b.publishable
      AND EXISTS (SELECT 1 FROM inbox x
                  WHERE x.tenant_id = b.tenant_id AND x.hash = b.hash AND x.expires_at > now()
                    AND (x.instance_id IS NULL OR x.instance_id = b.instance_id)
                    AND (x.correlation_id IS NULL OR x.correlation_id = b.correlation_id)
                    AND (x.activity_execution_id IS NULL OR x.activity_execution_id = b.activity_execution_id))
      AND NOT EXISTS (SELECT 1 FROM work w
                      WHERE w.tenant_id = b.tenant_id AND w.instance_id = b.instance_id AND w.kind = 2
                        AND w.body->>'bookmarkId' = b.id)
    UNION ALL
    SELECT 'trigger-missed-its-stimulus', count(*), min(t.definition_id || '/' || t.activity_id)
    FROM trigger t
    WHERE EXISTS (SELECT 1 FROM inbox x
                  WHERE x.tenant_id = t.tenant_id AND x.hash = t.hash AND x.expires_at > now()
                    AND x.instance_id IS NULL AND x.activity_execution_id IS NULL)
    UNION ALL
    SELECT 'goes-on-twice', count(*), min(g.instance_id)
    FROM (SELECT w.tenant_id, w.instance_id FROM work w WHERE w.kind = 4 GROUP BY 1, 2 HAVING count(*) > 1) g
    UNION ALL
    SELECT 'trigger-without-published-definition', count(*), min(t.definition_id)
    FROM trigger t
    WHERE NOT EXISTS (SELECT 1 FROM definition d
                      WHERE d.tenant_id = t.tenant_id AND d.definition_id = t.definition_id AND d.is_published)
    UNION ALL
    SELECT 'definition-without-latest', count(*), min(d.definition_id)
    FROM (SELECT tenant_id, definition_id, bool_or(is_latest) AS latest FROM definition GROUP BY 1, 2) d
    WHERE NOT d.latest
) v
WHERE v.count > 0
ORDER BY v.invariant
