-- purpose: count the executions of each activity of an instance, for those who observe it
-- caller:  store::activity_stats
-- index:   the primary keys of the partitions of burst_record
-- locks:   none
SELECT e.node_id, min(e.activity_id) AS activity_id, count(*) AS started,
       count(*) FILTER (WHERE e.status IN ('Completed', 'Canceled')) AS completed,
       bool_or(e.status = 'Running' AND e.has_bookmarks) AS blocked,
       bool_or(e.status = 'Faulted' OR e.fault_count > 0) AS faulted
FROM (SELECT DISTINCT ON (a.id) a.node_id, a.activity_id, a.status, a.has_bookmarks, a.fault_count
      FROM activity_execution a
      WHERE a.tenant_id = $1 AND a.instance_id = $2
      ORDER BY a.id, a.version DESC) e
GROUP BY e.node_id
ORDER BY e.node_id
LIMIT $3
