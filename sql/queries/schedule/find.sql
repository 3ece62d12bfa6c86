-- purpose: read one schedule; with whether an instance of it still runs, where its overlap policy needs that
-- caller:  store::schedule
-- index:   schedule_pkey, activation_held
-- locks:   none
SELECT s.tenant_id, s.id, s.definition_id, s.activity_id, s.spec, s.anchor, s.version, s.last_occurrence, s.next_occurrence,
       s.next_fire, s.queued,
       -- Without EXISTS, whose plan may hash all of activation.
       s.overlap > 0 /* allow */ AND coalesce((SELECT true FROM activation a
                                   WHERE a.tenant_id = s.tenant_id AND a.key = schedule_key(s.id) AND a.exclusive
                                   LIMIT 1), false) AS is_running,
       clock_timestamp() AS now, s.paused
FROM schedule s
WHERE s.tenant_id = $1 AND s.id = $2
