-- purpose: list the sequences that are to be raised after they have begun again, each with the number that it must have reached
-- caller:  db::migrate
-- index:   the primary keys, work_claimed, timer_claimed; scans bookmark and fan_out
-- locks:   none
-- Ids of work, of fan-outs, of stimuli, of dead letters and of the audit are never used again: instances and idempotency
-- keys are derived from them, and callers know them. Their rows are deleted, so the tables do not show how many there were.
-- There were fewer than microseconds since 1970, of which a double still holds each. The number of a sink is for the rows
-- that name it alone.
SELECT t.name, t.target
FROM (
    SELECT 'incarnation' AS name,
           greatest((SELECT max(n.incarnation) FROM node n), (SELECT max(d.incarnation) FROM removed_node d),
                    (SELECT max(c.incarnation) FROM crash c),
                    (SELECT max(w.claimed_by) FROM work w WHERE w.claimed_by IS NOT NULL),
                    (SELECT max(t.claimed_by) FROM timer t WHERE t.claimed_by IS NOT NULL),
                    (SELECT max(j.last_run_by) FROM cluster_job j)) AS target
    UNION ALL
    SELECT 'bookmark_number', greatest((SELECT max(b.number) FROM bookmark b), (SELECT max(f.cut) FROM fan_out f),
                                       (SELECT max(o.number) FROM fan_out_owed o))
    UNION ALL
    SELECT 'webhook_sink_number_seq', greatest((SELECT max(s.number) FROM webhook_sink s),
                                               (SELECT max(d.sink) FROM webhook_delivery d))
    UNION ALL
    SELECT i.name, greatest(i.used, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
    FROM (VALUES ('work_id_seq', greatest((SELECT max(w.id) FROM work w), -(SELECT min(w.id) FROM work w))),
                 ('fan_out_id_seq', (SELECT max(f.id) FROM fan_out f)),
                 ('inbox_id_seq', (SELECT max(x.id) FROM inbox x)),
                 ('dead_letter_id_seq', (SELECT max(l.id) FROM dead_letter l)),
                 ('audit_id_seq', (SELECT max(a.id) FROM audit a))) i(name, used)
) t
LEFT JOIN pg_sequences s ON s.schemaname = current_schema() AND s.sequencename = t.name
WHERE coalesce(s.last_value, 0) < t.target
ORDER BY t.name
