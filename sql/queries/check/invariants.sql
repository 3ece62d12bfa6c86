-- purpose: check the invariants: one row for each that is broken, with the number of cases and one example
-- caller:  store::check
-- index:   scans everything; for tests and rare calls of an operator
-- locks:   none
SELECT v.invariant, v.count, v.sample
FROM (
    SELECT 'bookmark-without-instance' AS invariant, count(*) AS count, min(b.instance_id || '/' || b.id) AS sample
    FROM bookmark b
    WHERE NOT EXISTS (SELECT 1 FROM instance i WHERE i.tenant_id = b.tenant_id AND i.id = b.instance_id
        AND i.status = 0 /* running */)
    UNION ALL
    SELECT 'timer-without-bookmark', count(*), min(t.instance_id || '/' || t.id)
    FROM timer t
    WHERE NOT EXISTS (SELECT 1 FROM bookmark b
                      WHERE b.tenant_id = t.tenant_id AND b.instance_id = t.instance_id AND b.id = t.id)
    UNION ALL
    SELECT 'delay-without-timer', count(*), min(b.instance_id || '/' || b.id)
    FROM bookmark b
    WHERE NOT b.publishable AND b.name IN ('Elsa.Delay', 'Elsa.Timer', 'Elsa.Cron', 'Elsa.StartAt')
      AND NOT EXISTS (SELECT 1 FROM timer t
                      WHERE t.tenant_id = b.tenant_id AND t.instance_id = b.instance_id AND t.id = b.id)
      -- Dead-lettered; or replayed, as a resume.
      AND NOT EXISTS (SELECT 1 FROM dead_letter l
                      WHERE l.tenant_id = b.tenant_id AND l.instance_id = b.instance_id
                        AND (l.timer_id = b.id OR (l.kind = 1 /* resume */ AND l.body->>'bookmarkId' = b.id)))
      AND NOT EXISTS (SELECT 1 FROM work w
                      WHERE w.tenant_id = b.tenant_id AND w.instance_id = b.instance_id AND w.kind = 1 /* resume */
                        AND w.body->>'bookmarkId' = b.id)
    UNION ALL
    SELECT 'running-without-reason', count(*), min(i.id)
    FROM instance i
    WHERE i.status = 0 /* running */
      -- Whose branches have all ended or stopped with an incident, by its strategy: it waits to be repaired.
      AND NOT (i.sub_status = 2 /* suspended */ AND i.incident_count > 0)
      AND NOT EXISTS (SELECT 1 FROM bookmark b WHERE b.tenant_id = i.tenant_id AND b.instance_id = i.id)
      AND NOT EXISTS (SELECT 1 FROM work w WHERE w.tenant_id = i.tenant_id AND w.instance_id = i.id)
      AND NOT EXISTS (SELECT 1 FROM dead_letter l WHERE l.tenant_id = i.tenant_id AND l.instance_id = i.id)
    UNION ALL
    SELECT 'claim-of-unknown-incarnation', count(*), min(c.what)
    FROM (SELECT w.claimed_by, 'work ' || w.id AS what FROM work w WHERE w.claimed_by IS NOT NULL
          UNION ALL
          SELECT t.claimed_by, 'timer ' || t.instance_id || '/' || t.id FROM timer t WHERE t.claimed_by IS NOT NULL
          UNION ALL
          SELECT s.claimed_by, 'webhook sink ' || s.id FROM webhook_sink s WHERE s.claimed_by IS NOT NULL) c
    WHERE NOT EXISTS (SELECT 1 FROM node n WHERE n.incarnation = c.claimed_by)
      AND NOT EXISTS (SELECT 1 FROM removed_node d WHERE d.incarnation = c.claimed_by)
    UNION ALL
    -- If its burst were lost, other rows could come before it.
    SELECT 'claim-without-mark', count(*), min(c.what)
    FROM (SELECT 'work ' || w.id AS what FROM work w WHERE w.claimed_by IS NOT NULL AND NOT w.has_begun
          UNION ALL
          SELECT 'timer ' || t.instance_id || '/' || t.id FROM timer t WHERE t.claimed_by IS NOT NULL AND NOT t.has_begun) c
    UNION ALL
    SELECT 'fence-without-node', count(*), min(f.incarnation::text)
    FROM fence f WHERE NOT EXISTS (SELECT 1 FROM node n WHERE n.incarnation = f.incarnation)
    UNION ALL
    SELECT 'removed-node-still-registered', count(*), min(n.incarnation::text)
    FROM node n WHERE EXISTS (SELECT 1 FROM removed_node d WHERE d.incarnation = n.incarnation)
    UNION ALL
    SELECT 'start-of-existing-instance', count(*), min(w.instance_id)
    FROM work w
    WHERE w.kind = 0 /* start */ AND w.claimed_by IS NULL
      AND EXISTS (SELECT 1 FROM instance i WHERE i.tenant_id = w.tenant_id AND i.id = w.instance_id)
    UNION ALL
    SELECT 'work-without-instance', count(*), min(w.instance_id || '/' || w.id)
    FROM work w
    WHERE w.kind <> 0 /* start */
      AND NOT EXISTS (SELECT 1 FROM instance i WHERE i.tenant_id = w.tenant_id AND i.id = w.instance_id)
      AND NOT EXISTS (SELECT 1 FROM work s WHERE s.tenant_id = w.tenant_id AND s.instance_id = w.instance_id
          AND s.kind = 0 /* start */)
      AND NOT EXISTS (SELECT 1 FROM dead_letter l WHERE l.tenant_id = w.tenant_id
          AND l.instance_id = w.instance_id AND l.kind = 0 /* start */)
    UNION ALL
    SELECT 'status-mismatch', count(*), min(i.id)
    FROM instance i WHERE (i.status = 1 /* finished */) <> (i.sub_status >= 3 /* finished */)
        OR (i.status = 1 /* finished */) <> (i.finished_at IS NOT NULL)
    UNION ALL
    -- Its end would delete the row.
    SELECT 'child-without-instance', count(*), min(c.id)
    FROM child c
    WHERE NOT EXISTS (SELECT 1 FROM instance i WHERE i.tenant_id = c.tenant_id AND i.id = c.id AND i.status = 0 /* running */)
      AND NOT EXISTS (SELECT 1 FROM work w WHERE w.tenant_id = c.tenant_id AND w.instance_id = c.id AND w.kind = 0 /* start */)
      AND NOT EXISTS (SELECT 1 FROM dead_letter l WHERE l.tenant_id = c.tenant_id AND l.instance_id = c.id
          AND l.kind = 0 /* start */)
    UNION ALL
    -- No cancel of its parent would reach it. One that is retried after its parent has ended for good needs none.
    SELECT 'orphaned-child', count(*), min(i.id)
    FROM instance i
    WHERE i.parent_instance_id IS NOT NULL AND i.status = 0 /* running */
      AND NOT EXISTS (SELECT 1 FROM instance p WHERE p.tenant_id = i.tenant_id AND p.id = i.parent_instance_id
                      AND p.sub_status IN (3 /* finished */, 4 /* cancelled */))
      AND NOT EXISTS (SELECT 1 FROM child c WHERE c.tenant_id = i.tenant_id AND c.id = i.id)
    UNION ALL
    -- A lost burst of the parent has run it, and the repeat has asked for another one, which only an altered state or a replay
    -- explains. While the repeat is still to come, and where there will be none, it is not known yet. One whose dead letter was
    -- deleted is reported, too.
    SELECT 'executed-child-of-no-burst', count(*), min(p.id)
    FROM (SELECT i.tenant_id, i.parent_instance_id AS id, count(*) AS children
          FROM instance i
          WHERE i.parent_instance_id IS NOT NULL
            AND convert_from(i.state, 'UTF8')::json->'parent'->'startedBy'->>'lineage' IS NOT NULL
          GROUP BY i.tenant_id, i.parent_instance_id) c
    JOIN instance p ON p.tenant_id = c.tenant_id AND p.id = c.id
    CROSS JOIN LATERAL (SELECT convert_from(p.state, 'UTF8')::json AS state OFFSET 0) s
    WHERE p.sub_status <> 4 /* cancelled */
      AND c.children > coalesce((s.state->>'executedChildren')::bigint, 0)
      AND s.state->>'alterations' IS NULL
      AND NOT EXISTS (SELECT 1 FROM work w WHERE w.tenant_id = p.tenant_id AND w.instance_id = p.id AND w.has_begun)
      AND NOT EXISTS (SELECT 1 FROM timer t WHERE t.tenant_id = p.tenant_id AND t.instance_id = p.id AND t.has_begun)
      AND NOT EXISTS (SELECT 1 FROM dead_letter l WHERE l.tenant_id = p.tenant_id AND l.instance_id = p.id)
    UNION ALL
    -- The cancel of a parent has left a child that lives, and no cancel of it; or that of the instance in whose burst the
    -- parent ran and was not committed.
    SELECT 'child-of-cancelled-parent', count(*), min(c.id)
    FROM child c
    WHERE (EXISTS (SELECT 1 FROM instance p WHERE p.tenant_id = c.tenant_id AND p.id = c.parent_instance_id
                   AND p.sub_status = 4 /* cancelled */)
           OR EXISTS (SELECT 1 FROM instance p WHERE p.tenant_id = c.tenant_id AND p.id = c.root_instance_id
                      AND p.sub_status = 4 /* cancelled */)
           AND NOT EXISTS (SELECT 1 FROM instance p WHERE p.tenant_id = c.tenant_id AND p.id = c.parent_instance_id))
      AND NOT EXISTS (SELECT 1 FROM work w WHERE w.tenant_id = c.tenant_id AND w.instance_id = c.id
          AND w.kind = 3 /* cancel */)
      AND NOT EXISTS (SELECT 1 FROM dead_letter l WHERE l.tenant_id = c.tenant_id AND l.instance_id = c.id)
    UNION ALL
    -- Nothing would wake the parent.
    SELECT 'waiting-without-child', count(*), min(b.instance_id || '/' || b.id)
    FROM bookmark b
    WHERE b.name IN ('Elsa.DispatchWorkflow', 'Elsa.BulkDispatchWorkflows', 'Elsa.ExecuteWorkflow') AND NOT b.publishable
      AND NOT EXISTS (SELECT 1 FROM child c WHERE c.tenant_id = b.tenant_id AND c.parent_instance_id = b.instance_id
          AND c.bookmark_id = b.id)
      AND NOT EXISTS (SELECT 1 FROM timer t WHERE t.tenant_id = b.tenant_id AND t.instance_id = b.instance_id
          AND t.id = b.id)
      AND NOT EXISTS (SELECT 1 FROM work w WHERE w.tenant_id = b.tenant_id AND w.instance_id = b.instance_id)
      AND NOT EXISTS (SELECT 1 FROM dead_letter l WHERE l.tenant_id = b.tenant_id AND l.instance_id = b.instance_id)
    UNION ALL
    SELECT 'journal-without-instance', count(*), min(j.instance_id)
    FROM (SELECT DISTINCT tenant_id, instance_id FROM burst_record) j
    WHERE NOT EXISTS (SELECT 1 FROM instance i WHERE i.tenant_id = j.tenant_id AND i.id = j.instance_id)
    UNION ALL
    SELECT 'journal-ahead-of-instance', count(*), min(j.instance_id)
    FROM (SELECT tenant_id, instance_id, max(version) AS version FROM burst_record GROUP BY 1, 2) j
    JOIN instance i ON i.tenant_id = j.tenant_id AND i.id = j.instance_id
    WHERE j.version > i.version
    UNION ALL
    -- A read or a delete of its records would miss it.
    SELECT 'record-outside-of-instance', count(*), min(j.instance_id)
    FROM (SELECT tenant_id, instance_id, min(at) AS first, max(at) AS last FROM burst_record GROUP BY 1, 2) j
    JOIN instance i ON i.tenant_id = j.tenant_id AND i.id = j.instance_id
    WHERE j.first < i.created_at OR j.last > i.updated_at
    UNION ALL
    SELECT 'journal-not-contiguous', count(*), min(j.instance_id)
    FROM (SELECT tenant_id, instance_id, sum(entries) AS entries,
                 max(first_entry + entries) - min(first_entry) AS span
          FROM burst_record WHERE entries > 0 GROUP BY 1, 2) j
    WHERE j.entries <> j.span
    UNION ALL
    SELECT 'activity-ended-twice', count(*), min(e.instance_id || ':' || e.number)
    -- By jsonb, which is faster than the view; bodies that it cannot hold are left out. It may fault once more after each retry.
    FROM (SELECT r.tenant_id, r.instance_id, r.body #>> ARRAY['activities', j.entry->>0, '0'] AS number,
                 CASE v.event WHEN 'Retried' THEN 'Faulted' ELSE v.event END AS event
          FROM (SELECT c.tenant_id, c.instance_id, CASE WHEN strpos(c.body, '\u0000') = 0 THEN c.body::jsonb END AS body
                FROM burst_record c OFFSET 0) r
          CROSS JOIN LATERAL jsonb_array_elements(r.body->'journal') j(entry)
          CROSS JOIN LATERAL (SELECT r.body #>> ARRAY['values', j.entry->>2] AS event) v
          WHERE v.event IN ('Completed', 'Faulted', 'Canceled', 'Retried')
          GROUP BY 1, 2, 3, 4
          HAVING count(*) FILTER (WHERE v.event <> 'Retried') > 1 + count(*) FILTER (WHERE v.event = 'Retried')) e
    UNION ALL
    SELECT 'timer-of-finished-instance', count(*), min(t.instance_id)
    FROM timer t JOIN instance i ON i.tenant_id = t.tenant_id AND i.id = t.instance_id
    WHERE i.status = 1 /* finished */
    UNION ALL
    SELECT 'bookmark-missed-its-stimulus', count(*), min(b.instance_id || '/' || b.id)
    FROM bookmark b
    JOIN instance i ON i.tenant_id = b.tenant_id AND i.id = b.instance_id
    WHERE b.publishable
      AND EXISTS (SELECT 1 FROM inbox x
                  WHERE x.tenant_id = b.tenant_id AND x.hash = b.hash AND x.expires_at > now()
                    AND (x.instance_id IS NULL OR x.instance_id = b.instance_id)
                    AND (x.correlation_id IS NULL OR x.correlation_id = i.correlation_id)
                    AND (x.activity_execution_id IS NULL OR x.activity_execution_id = b.activity_execution_id))
      AND NOT EXISTS (SELECT 1 FROM work w
                      WHERE w.tenant_id = b.tenant_id AND w.instance_id = b.instance_id AND w.kind = 2 /* stimulus */
                        AND w.body->>'bookmarkId' = b.id)
    UNION ALL
    SELECT 'trigger-missed-its-stimulus', count(*), min(t.definition_id || '/' || t.activity_id)
    FROM trigger t
    WHERE EXISTS (SELECT 1 FROM inbox x
                  WHERE x.tenant_id = t.tenant_id AND x.hash = t.hash AND x.expires_at > now()
                    AND x.instance_id IS NULL AND x.activity_execution_id IS NULL
                    -- One that a page is to take is not missed.
                    AND NOT EXISTS (SELECT 1 FROM inbox_match m
                                    WHERE m.tenant_id = x.tenant_id AND m.hash = x.hash
                                      AND x.id > m.cursor AND x.id <= m.cut))
    UNION ALL
    SELECT 'inbox-match-without-trigger', count(*), min(m.definition_id)
    FROM inbox_match m
    WHERE NOT EXISTS (SELECT 1 FROM trigger t
                      WHERE t.tenant_id = m.tenant_id AND t.definition_id = m.definition_id AND t.hash = m.hash)
    UNION ALL
    SELECT 'bookmark-of-another-correlation', count(*), min(b.instance_id || '/' || b.id)
    FROM bookmark b
    JOIN instance i ON i.tenant_id = b.tenant_id AND i.id = b.instance_id
    WHERE b.publishable AND b.correlation_id IS DISTINCT FROM i.correlation_id
    UNION ALL
    SELECT 'work-of-missing-fan-out', count(*), min(w.instance_id || '/' || w.id)
    FROM work w
    WHERE w.fan_out IS NOT NULL AND NOT EXISTS (SELECT 1 FROM fan_out f WHERE f.id = w.fan_out)
    UNION ALL
    SELECT 'owed-by-missing-fan-out', count(*), min(o.instance_id || '/' || o.bookmark_id)
    FROM fan_out_owed o
    WHERE NOT EXISTS (SELECT 1 FROM fan_out f WHERE f.id = o.fan_out)
    UNION ALL
    SELECT 'fan-outs-of-one-stimulus', count(*), min(g.ids)
    FROM (SELECT min(f.id) || '/' || max(f.id) AS ids
          FROM fan_out f WHERE f.finished_at IS NULL AND f.cut IS NOT NULL
          GROUP BY f.tenant_id, f.hash, f.correlation_id, f.instance_id HAVING count(*) > 1) g
    UNION ALL
    SELECT 'fan-out-past-its-cut', count(*), min(f.id::text)
    FROM fan_out f
    WHERE f.cursor > f.cut
    UNION ALL
    SELECT 'continued-twice', count(*), min(g.instance_id)
    FROM (SELECT w.tenant_id, w.instance_id FROM work w WHERE w.kind = 4 /* continue */ GROUP BY 1, 2 HAVING count(*) > 1) g
    UNION ALL
    SELECT 'trigger-without-published-definition', count(*), min(t.definition_id)
    FROM trigger t
    WHERE NOT EXISTS (SELECT 1 FROM definition d
                      WHERE d.tenant_id = t.tenant_id AND d.definition_id = t.definition_id AND d.is_published)
    UNION ALL
    -- A node would not read it.
    SELECT 'trigger-of-later-revision', count(*), min(t.definition_id)
    FROM trigger t WHERE t.revision > (SELECT r.revision FROM revision r)
    UNION ALL
    -- No request would find it: its template has a parameter.
    SELECT 'endpoint-without-route', count(*), min(b.instance_id || '/' || b.id)
    FROM bookmark b
    WHERE b.name = 'Elsa.HttpEndpoint' AND b.publishable
      AND replace(replace(b.payload->>'path', '{{', ''), '}}', '') LIKE '%{%'
      AND NOT EXISTS (SELECT 1 FROM bookmark_route r
                      WHERE r.tenant_id = b.tenant_id AND r.hash = b.hash AND r.template = b.payload->>'path'
                        AND r.method = lower(b.payload->>'method'))
    UNION ALL
    SELECT 'reference-without-version', count(*), min(r.version_id || ' uses ' || r.used_definition_id)
    FROM definition_reference r
    WHERE NOT EXISTS (SELECT 1 FROM definition d WHERE d.tenant_id = r.tenant_id AND d.version_id = r.version_id)
       OR (r.used_version_id IS NOT NULL
           AND NOT EXISTS (SELECT 1 FROM definition u WHERE u.tenant_id = r.tenant_id AND u.version_id = r.used_version_id
                           AND (u.was_published OR u.was_started)))
    UNION ALL
    SELECT 'undecided-reference', count(*), min(r.version_id || ' uses ' || r.used_definition_id)
    FROM definition_reference r
    JOIN definition d ON d.tenant_id = r.tenant_id AND d.version_id = r.version_id
    WHERE r.used_version_id IS NULL AND (d.was_published OR d.was_started)
    UNION ALL
    SELECT 'definition-without-latest', count(*), min(d.definition_id)
    FROM (SELECT tenant_id, definition_id, bool_or(is_latest) AS latest FROM definition
          WHERE deleted_at IS NULL GROUP BY 1, 2) d
    WHERE NOT d.latest
    UNION ALL
    SELECT 'latest-version-is-not-the-greatest', count(*), min(d.version_id)
    FROM definition d
    WHERE d.is_latest
      AND EXISTS (SELECT 1 FROM definition m
                  WHERE m.tenant_id = d.tenant_id AND m.definition_id = d.definition_id AND m.deleted_at IS NULL
                    AND m.version > d.version)
    UNION ALL
    SELECT 'dead-letter-of-existing-row', count(*), min(l.instance_id || '/' || l.id)
    FROM dead_letter l
    WHERE EXISTS (SELECT 1 FROM work w WHERE w.tenant_id = l.tenant_id AND w.id = l.work_id)
       OR EXISTS (SELECT 1 FROM inbox x WHERE x.tenant_id = l.tenant_id AND x.id = l.inbox_id)
       OR EXISTS (SELECT 1 FROM timer t
                  WHERE t.tenant_id = l.tenant_id AND t.instance_id = l.instance_id AND t.id = l.timer_id)
    UNION ALL
    SELECT 'crashes-past-the-limit', count(*), min(c.what)
    FROM (SELECT w.crashes, 'work ' || w.id AS what FROM work w
          UNION ALL
          SELECT t.crashes, 'timer ' || t.instance_id || '/' || t.id FROM timer t) c
    WHERE c.crashes >= 5
    UNION ALL
    SELECT 'isolated-rows-claimed-together', count(*), min(s.claimed_by::text)
    FROM (SELECT c.claimed_by
          -- What goes on after a yield has no content of its own, and is claimed with a row that has.
          FROM (SELECT w.claimed_by FROM work w
                WHERE w.claimed_by IS NOT NULL AND w.crashes >= 2 AND w.kind <> 4 /* continue */
                UNION ALL
                SELECT t.claimed_by FROM timer t WHERE t.claimed_by IS NOT NULL AND t.crashes >= 2) c
          -- A hung node has counted a crash for several, and claims nothing more.
          WHERE NOT EXISTS (SELECT 1 FROM node n WHERE n.incarnation = c.claimed_by AND n.hung)
          GROUP BY c.claimed_by HAVING count(*) > 1) s
    UNION ALL
    SELECT 'activation-without-instance', count(*), min(a.instance_id)
    FROM activation a
    WHERE a.exclusive
      AND NOT EXISTS (SELECT 1 FROM instance i WHERE i.tenant_id = a.tenant_id AND i.id = a.instance_id
          AND i.status = 0 /* running */)
      AND NOT EXISTS (SELECT 1 FROM work w WHERE w.tenant_id = a.tenant_id AND w.instance_id = a.instance_id
          AND w.kind = 0 /* start */)
    UNION ALL
    SELECT 'activation-of-another-correlation', count(*), min(a.instance_id)
    FROM activation a
    JOIN instance i ON i.tenant_id = a.tenant_id AND i.id = a.instance_id
    WHERE a.strategy >= 2 /* correlated singleton */ AND i.correlation_id IS NOT NULL
      AND a.correlation_id IS DISTINCT FROM nullif(i.correlation_id, '')
    UNION ALL
    SELECT 'start-without-activation', count(*), min(w.instance_id)
    FROM work w
    JOIN definition d ON d.tenant_id = w.tenant_id AND d.definition_id = w.definition_id AND d.is_published
    WHERE w.kind = 0 /* start */ AND d.seeding < 2 /* seed */
      AND activation_key(d.activation_strategy, d.definition_id, w.body->>'correlationId') IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM activation a
                      WHERE a.tenant_id = w.tenant_id AND a.instance_id = w.instance_id
                        AND a.key = activation_key(d.activation_strategy, d.definition_id, w.body->>'correlationId'))
    UNION ALL
    SELECT 'singleton-without-activation', count(*), min(i.id)
    FROM instance i
    JOIN definition d ON d.tenant_id = i.tenant_id AND d.definition_id = i.definition_id AND d.is_published
    WHERE i.status = 0 /* running */ AND d.activation_strategy = 1 /* singleton */ AND d.seeding < 2 /* seed */
      AND NOT EXISTS (SELECT 1 FROM activation a
                      WHERE a.tenant_id = i.tenant_id AND a.instance_id = i.id
                        AND a.key = activation_key(1::smallint /* singleton */, i.definition_id, NULL))
    UNION ALL
    SELECT 'correlation-without-activation', count(*), min(i.id)
    FROM instance i
    JOIN definition d ON d.tenant_id = i.tenant_id AND d.is_published AND d.seeding < 2 /* seed */
        AND (d.activation_strategy = 3 /* correlation */ OR (d.activation_strategy = 2 /* correlated singleton */
            AND d.definition_id = i.definition_id))
    WHERE i.status = 0 /* running */ AND i.correlation_id <> ''
      AND NOT EXISTS (SELECT 1 FROM activation a
                      WHERE a.tenant_id = i.tenant_id AND a.instance_id = i.id
                        AND a.key = activation_key(d.activation_strategy, i.definition_id, i.correlation_id))
    UNION ALL
    SELECT 'singleton-twice', count(*), min(s.definition_id)
    FROM (SELECT u.tenant_id, u.definition_id
          FROM (SELECT i.tenant_id, i.definition_id, i.version_id, i.id FROM instance i WHERE i.status = 0 /* running */
                UNION
                SELECT w.tenant_id, w.definition_id, w.version_id, w.instance_id FROM work w WHERE w.kind = 0 /* start */) u
          JOIN definition d ON d.tenant_id = u.tenant_id AND d.version_id = u.version_id
              AND d.activation_strategy = 1 /* singleton */
              AND d.is_published
          GROUP BY 1, 2 HAVING count(DISTINCT u.id) > 1) s
    UNION ALL
    SELECT 'schedule-without-published-definition', count(*), min(s.id)
    FROM schedule s
    WHERE NOT EXISTS (SELECT 1 FROM definition d
                      WHERE d.tenant_id = s.tenant_id AND d.definition_id = s.definition_id AND d.is_published)
    UNION ALL
    SELECT 'schedule-goes-back', count(*), min(s.id)
    FROM schedule s
    WHERE s.next_occurrence <= s.last_occurrence
    UNION ALL
    SELECT 'queued-without-overlap-policy', count(*), min(s.id)
    FROM schedule s
    WHERE s.queued IS NOT NULL AND s.overlap = 0 /* allow */
    UNION ALL
    SELECT 'schedule-runs-twice', count(*), min(encode(a.key, 'hex'))
    FROM (SELECT x.tenant_id, x.key FROM activation x
          WHERE x.exclusive AND x.strategy = 0 /* schedule */ GROUP BY 1, 2 HAVING count(*) > 1) a
    UNION ALL
    SELECT 'cluster-job-out-of-schedule', count(*), min(j.name)
    FROM (VALUES ('release-orphaned', interval '10 seconds'), ('purge-expired', interval '10 seconds'),
                 ('create-partitions', interval '1 hour'), ('report-unsupported', interval '1 minute'),
                 ('purge-definitions', interval '1 hour'), ('sample-cluster', interval '15 seconds')) j(name, period)
    LEFT JOIN cluster_job c ON c.name = j.name
    WHERE c.name IS NULL OR c.next_run_at > clock_timestamp() + 2 * j.period
    UNION ALL
    SELECT 'second-in-wrong-slot', count(*), min(c.slot::text)
    FROM cluster_second c
    WHERE c.slot <> extract(epoch FROM c.at)::bigint % 3600
    UNION ALL
    -- Of HTTP clients. No text within a state has quotes that are not escaped.
    SELECT CASE WHEN r.status = 1 /* finished */ THEN 'open-request-of-ended-instance' ELSE 'open-request-with-answer' END,
           count(*), min(r.id)
    FROM (SELECT i.tenant_id, i.id, i.status, json_array_elements(convert_from(i.state, 'UTF8')::json->'requests') AS request
          FROM instance i WHERE position('"requests":['::bytea IN i.state) > 0) r
    WHERE r.status = 1 /* finished */
       OR NOT coalesce((r.request->>'isAnswered')::boolean, false)
          AND EXISTS (SELECT 1 FROM http_answer a
                      WHERE a.request_id = (r.request->>'id')::uuid AND a.tenant_id = r.tenant_id AND a.instance_id = r.id)
    GROUP BY 1
    UNION ALL
    SELECT 'resume-link-without-instance', count(*), min(l.id::text)
    FROM resume_link l
    WHERE NOT EXISTS (SELECT 1 FROM instance i
                      WHERE i.id = l.instance_id AND i.tenant_id = l.tenant_id
                        AND (extract(epoch FROM i.created_at) * 1000000)::bigint = l.generation)
    UNION ALL
    -- Entries of the audit may be deleted before their link.
    SELECT 'resume-link-used-more-often-than-counted', count(*), min(u.id::text)
    FROM (SELECT l.id FROM resume_link l
          JOIN audit a ON a.link_id = l.id AND a.outcome = 0 /* accepted */ AND a.at >= l.created_at
          GROUP BY l.id HAVING count(*) > min(l.uses - l.uses_left)) u
    UNION ALL
    SELECT 'no-token-key', 1, NULL WHERE NOT EXISTS (SELECT 1 FROM token_key)
    UNION ALL
    -- Nothing sends it, gives it up or purges it.
    SELECT 'delivery-without-sink', count(*), min(d.id || '/' || d.sink)
    FROM webhook_delivery d
    WHERE d.state = 0 /* pending */ AND NOT EXISTS (SELECT 1 FROM webhook_sink s WHERE s.number = d.sink)
    UNION ALL
    SELECT 'sink-rests-too-long', count(*), min(s.id)
    FROM webhook_sink s
    -- A sink rests for five minutes at most, or for the hour that it asks for.
    WHERE s.retry_at > clock_timestamp() + interval '2 hours'
    UNION ALL
    SELECT 'user-with-unknown-role', count(*), min(u.id)
    FROM identity_user u
    WHERE EXISTS (SELECT 1 FROM unnest(u.roles) r(id)
                  WHERE NOT EXISTS (SELECT 1 FROM identity_role o WHERE o.id = r.id AND o.tenant_id = u.tenant_id))
    UNION ALL
    SELECT 'application-with-unknown-role', count(*), min(a.id)
    FROM identity_application a
    WHERE EXISTS (SELECT 1 FROM unnest(a.roles) r(id)
                  WHERE NOT EXISTS (SELECT 1 FROM identity_role o WHERE o.id = r.id AND o.tenant_id = a.tenant_id))
    UNION ALL
    SELECT 'session-without-user', count(*), min(s.id::text)
    FROM identity_session s
    WHERE NOT EXISTS (SELECT 1 FROM identity_user u
                      WHERE u.id = s.user_id AND u.tenant_id = s.tenant_id AND u.disabled_at IS NULL)
    UNION ALL
    -- As after an upgrade by logical replication: ids are given twice, and the cut of a fan-out is below the bookmarks that wait.
    SELECT 'sequence-behind', count(*), min(u.name || ' is behind ' || u.used)
    FROM (SELECT 'incarnation' AS name,
                 greatest((SELECT max(n.incarnation) FROM node n), (SELECT max(w.claimed_by) FROM work w),
                          (SELECT max(t.claimed_by) FROM timer t), (SELECT max(s.claimed_by) FROM webhook_sink s)) AS used
          UNION ALL
          SELECT 'bookmark_number', greatest((SELECT max(b.number) FROM bookmark b), (SELECT max(f.cut) FROM fan_out f),
                                             (SELECT max(o.number) FROM fan_out_owed o))
          UNION ALL
          SELECT 'work_id_seq', (SELECT max(abs(w.id)) FROM work w)
          UNION ALL
          SELECT 'fan_out_id_seq', (SELECT max(f.id) FROM fan_out f)
          UNION ALL
          SELECT 'inbox_id_seq', (SELECT max(x.id) FROM inbox x)
          UNION ALL
          SELECT 'dead_letter_id_seq', (SELECT max(l.id) FROM dead_letter l)
          UNION ALL
          SELECT 'audit_id_seq', (SELECT max(a.id) FROM audit a)
          UNION ALL
          SELECT 'webhook_sink_number_seq', greatest((SELECT max(s.number) FROM webhook_sink s),
                                                     (SELECT max(d.sink) FROM webhook_delivery d))) u
    LEFT JOIN pg_sequences s ON s.schemaname = current_schema() AND s.sequencename = u.name
    WHERE coalesce(s.last_value, 0) < u.used
) v
WHERE v.count > 0
ORDER BY v.invariant
