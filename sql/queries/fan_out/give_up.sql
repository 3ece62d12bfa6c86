-- purpose: make a dead letter of an event whose turn the database refuses, so that those behind it take theirs
-- caller:  store::fan_out, in the transaction that holds the fan-out
-- index:   fan_out_pkey
-- locks:   none but the fan-out, which the caller holds
WITH given_up AS (
    UPDATE fan_out f SET finished_at = now()
    WHERE f.id = $1
    RETURNING f.*
)
INSERT INTO dead_letter (tenant_id, instance_id, kind, reason, inbox_id, hash, name, correlation_id, activity_execution_id,
                         body, failures, crashes, accepted_at)
SELECT g.tenant_id, coalesce(g.instance_id, ''), 6 /* inbox */, 'the fan-out of an event could not take its turn: ' || $2::text,
       nextval(pg_get_serial_sequence('inbox', 'id')), g.hash, g.name, g.correlation_id, g.activity_execution_id,
       json_build_object('payload', g.payload), 0, 0, g.accepted_at
FROM given_up g
