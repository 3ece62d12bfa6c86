-- purpose: read whether sequences have begun again, as after an upgrade of the server by logical replication: one is behind ids
--          in the tables, or no node has ever drawn an incarnation and there are instances
-- caller:  db::migrate
-- index:   the primary keys, work_claimed, timer_claimed, work_fan_out, bookmark_tasks
-- locks:   none
-- No index has all numbers of bookmarks. After such an upgrade nearly all are above the sequence, so a few rows show it.
SELECT EXISTS (
    SELECT FROM (
        SELECT 'incarnation' AS name,
               greatest((SELECT max(n.incarnation) FROM node n), (SELECT max(d.incarnation) FROM removed_node d),
                        (SELECT max(c.incarnation) FROM crash c),
                        (SELECT max(w.claimed_by) FROM work w WHERE w.claimed_by IS NOT NULL),
                        (SELECT max(t.claimed_by) FROM timer t WHERE t.claimed_by IS NOT NULL)) AS used
        UNION ALL
        SELECT 'bookmark_number',
               greatest((SELECT max(b.number) FROM (SELECT s.number FROM bookmark s LIMIT 1000) b),
                        (SELECT max(b.number) FROM bookmark b WHERE b.name = 'Elsa.RunTask'),
                        (SELECT max(f.cut) FROM (SELECT s.cut FROM fan_out s ORDER BY s.id DESC LIMIT 1000) f))
        UNION ALL
        -- Those of cancels are negative.
        SELECT 'work_id_seq', greatest((SELECT max(w.id) FROM work w), -(SELECT min(w.id) FROM work w))
        UNION ALL
        SELECT 'fan_out_id_seq', greatest((SELECT max(f.id) FROM fan_out f), (SELECT max(o.fan_out) FROM fan_out_owed o),
                                          (SELECT max(w.fan_out) FROM work w WHERE w.fan_out IS NOT NULL))
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
) OR (NOT EXISTS (SELECT FROM pg_sequences s
                  WHERE s.schemaname = current_schema() AND s.sequencename = 'incarnation' AND s.last_value IS NOT NULL)
      AND EXISTS (SELECT FROM instance)) AS behind
