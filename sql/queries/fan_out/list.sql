-- purpose: list the unfinished fan-outs and those that finished last, for operators
-- caller:  store::fan_out
-- index:   fan_out_unfinished, fan_out_finished
-- locks:   none
(SELECT f.id, f.tenant_id, f.name, f.correlation_id, f.instance_id, f.accepted_at, f.began_at, f.finished_at, f.resumed,
        f.started, f.cursor, f.cut, now() AS at
 FROM fan_out f
 WHERE f.finished_at IS NULL
 ORDER BY f.id + 0 LIMIT $1)
UNION ALL
(SELECT f.id, f.tenant_id, f.name, f.correlation_id, f.instance_id, f.accepted_at, f.began_at, f.finished_at, f.resumed,
        f.started, f.cursor, f.cut, now()
 FROM fan_out f
 WHERE f.finished_at IS NOT NULL
 ORDER BY f.finished_at DESC LIMIT $1)
