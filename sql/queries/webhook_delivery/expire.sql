-- purpose: give up what was not delivered in time, and what is pending for a sink that is gone; delete what has ended long ago,
--          what is pending for a deleted sink, and such sinks. A page of each
-- caller:  store::webhook::delivery
-- index:   webhook_delivery_expiry, webhook_delivery_due
-- locks:   deliveries, then sinks; locked ones are skipped
-- $1: how long a dead letter is kept, in microseconds.
WITH expired AS MATERIALIZED (
    SELECT d.ctid AS place, d.state FROM webhook_delivery d
    WHERE d.expires_at <= now()
    ORDER BY d.expires_at LIMIT 1000 FOR UPDATE SKIP LOCKED
), gone AS MATERIALIZED (
    SELECT l.place, s.deleted_at IS NOT NULL AS is_deleted
    FROM webhook_sink s
    CROSS JOIN LATERAL (
        SELECT d.ctid AS place FROM webhook_delivery d
        WHERE d.sink = s.number AND d.state = 0 /* pending */ LIMIT 1000 FOR UPDATE SKIP LOCKED) l
    WHERE s.deleted_at IS NOT NULL OR s.disabled_at IS NOT NULL
    LIMIT 1000
), given_up AS (
    UPDATE webhook_delivery d
    SET state = 2 /* dead letter */, ended_at = now(), expires_at = now() + $1::bigint * interval '1 microsecond',
        last_error = CASE WHEN d.expires_at <= now() THEN coalesce('it was not delivered in time; the last attempt: ' || d.last_error,
                                                                   'it was not sent in time: its sink was paused, or did not answer')
                          ELSE 'its sink has answered that it is gone (410)' END
    WHERE d.ctid = ANY (ARRAY(SELECT e.place FROM expired e WHERE e.state = 0 /* pending */
                              UNION SELECT g.place FROM gone g WHERE NOT g.is_deleted))
    RETURNING 1
), deleted AS (
    DELETE FROM webhook_delivery d
    WHERE d.ctid = ANY (ARRAY(SELECT e.place FROM expired e WHERE e.state <> 0 /* pending */
                              UNION SELECT g.place FROM gone g WHERE g.is_deleted))
    RETURNING 1
), purged AS (
    DELETE FROM webhook_sink s
    WHERE s.deleted_at < now() - interval '1 minute'
      AND (SELECT true FROM webhook_delivery d WHERE d.sink = s.number AND d.state = 0 /* pending */ LIMIT 1) IS NULL
)
SELECT (SELECT count(*) FROM given_up) AS given_up, (SELECT count(*) FROM deleted) AS deleted
