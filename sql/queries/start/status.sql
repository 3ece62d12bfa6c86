-- purpose: read the result of a start without a row of work or an instance: it exists after all, it is a dead letter,
--          or the server has not crashed since it was accepted, so that it was deleted; otherwise the result is
--          unknown
-- caller:  store::work
-- index:   work_instance, instance_pkey, dead_letter_instance, node_pkey
-- locks:   none; one snapshot. A crash of the server empties the unlogged table of nodes, so the row of the node that
--          accepted the start proves that there was none
SELECT EXISTS (SELECT 1 FROM work w
               WHERE w.tenant_id = $1 AND w.instance_id = $2 AND work_order(w.id, w.definition_id) = 0)
       OR EXISTS (SELECT 1 FROM instance i WHERE i.tenant_id = $1 AND i.id = $2) AS there,
       EXISTS (SELECT 1 FROM dead_letter d WHERE d.tenant_id = $1 AND d.instance_id = $2
           AND d.kind = 0 /* start */) AS dead_lettered,
       EXISTS (SELECT 1 FROM node n WHERE n.incarnation = $3) AS no_crash
