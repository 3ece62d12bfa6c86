-- purpose: delete expired stimuli, idempotency keys, ends of requests and results of work. Stimuli for an instance, a
--          correlation id or an activity execution become dead letters, which are deleted when they are older than $1
--          microseconds. Other dead letters stay. Also entries of the audit that are older than $3 microseconds, and resume links
--          that expired longer ago than $4 microseconds: until then the answer is that the link has expired
-- caller:  store::maintenance
-- index:   inbox_expiry, idempotency_key_expiry, http_answer_expiry, unmatched_work_expiry, instance_pkey, dead_letter_expiry,
--          audit_pkey, resume_link_expiry
-- locks:   inbox, then idempotency_key, then unmatched_work, then dead_letter, then http_answer, then resume_link; locked ones are
--          skipped. audit, which nothing else locks
-- $2, and the result for the next batch: up to where the last batch came in each of the seven; deleted rows stay in the indexes
-- while an old snapshot exists, and would be walked over by each batch.
WITH stale AS MATERIALIZED (
    SELECT ctid AS place, expires_at FROM inbox
    WHERE expires_at <= now() AND expires_at >= coalesce(($2::timestamptz[])[1], '-infinity')
    ORDER BY expires_at LIMIT 1000 FOR UPDATE SKIP LOCKED
), spent AS MATERIALIZED (
    SELECT ctid AS place, expires_at FROM idempotency_key
    WHERE expires_at <= now() AND expires_at >= coalesce(($2::timestamptz[])[2], '-infinity')
    ORDER BY expires_at LIMIT 1000 FOR UPDATE SKIP LOCKED
), unmatched_old AS MATERIALIZED (
    -- Longer than the idempotency keys that may refer to it.
    SELECT ctid AS place, ended_at FROM unmatched_work
    WHERE ended_at < now() - interval '25 hours' AND ended_at >= coalesce(($2::timestamptz[])[3], '-infinity')
    ORDER BY ended_at LIMIT 1000 FOR UPDATE SKIP LOCKED
), dead_letter_old AS MATERIALIZED (
    SELECT ctid AS place, created_at FROM dead_letter
    WHERE kind = 6 /* inbox */ AND created_at < now() - $1::bigint * interval '1 microsecond'
      AND created_at >= coalesce(($2::timestamptz[])[4], '-infinity')
    ORDER BY created_at LIMIT 1000 FOR UPDATE SKIP LOCKED
), answer_old AS MATERIALIZED (
    SELECT ctid AS place, expires_at FROM http_answer
    WHERE expires_at <= now() AND expires_at >= coalesce(($2::timestamptz[])[5], '-infinity')
    ORDER BY expires_at LIMIT 1000 FOR UPDATE SKIP LOCKED
), entry_old AS MATERIALIZED (
    -- The oldest by their ids, and of these the old ones: no more is read where nothing is old.
    SELECT o.place, o.at
    FROM (SELECT ctid AS place, at FROM audit
          WHERE at >= coalesce(($2::timestamptz[])[6], '-infinity') ORDER BY id LIMIT 1000) o
    WHERE o.at < now() - $3::bigint * interval '1 microsecond'
), link_old AS MATERIALIZED (
    SELECT ctid AS place, expires_at FROM resume_link
    WHERE expires_at < now() - $4::bigint * interval '1 microsecond'
      AND expires_at >= coalesce(($2::timestamptz[])[7], '-infinity')
    ORDER BY expires_at LIMIT 1000 FOR UPDATE SKIP LOCKED
), link_deleted AS (
    DELETE FROM resume_link l WHERE l.ctid = ANY (ARRAY(SELECT o.place FROM link_old o)) RETURNING 1
), entry_deleted AS (
    DELETE FROM audit a WHERE a.ctid = ANY (ARRAY(SELECT o.place FROM entry_old o)) RETURNING 1
), answer_deleted AS (
    DELETE FROM http_answer a WHERE a.ctid = ANY (ARRAY(SELECT o.place FROM answer_old o)) RETURNING 1
), dead_letter_deleted AS (
    -- By ctid: the plan of a join would read the whole table.
    DELETE FROM dead_letter d WHERE d.ctid = ANY (ARRAY(SELECT o.place FROM dead_letter_old o)) RETURNING 1
), unmatched_deleted AS (
    DELETE FROM unmatched_work u WHERE u.ctid = ANY (ARRAY(SELECT o.place FROM unmatched_old o)) RETURNING 1
), inbox_deleted AS (
    DELETE FROM inbox x WHERE x.ctid = ANY (ARRAY(SELECT s.place FROM stale s))
    RETURNING x.tenant_id, x.id, x.hash, x.name, x.payload, x.correlation_id, x.instance_id, x.activity_execution_id,
              x.created_at
), dead_letters AS (
    INSERT INTO dead_letter (tenant_id, instance_id, kind, reason, inbox_id, hash, name, correlation_id,
                             activity_execution_id, body, failures, crashes, accepted_at)
    SELECT x.tenant_id, coalesce(x.instance_id, ''), 6 /* inbox */,
           CASE WHEN EXISTS (SELECT 1 FROM instance i
                             WHERE i.tenant_id = x.tenant_id AND i.id = x.instance_id AND i.status = 1 /* finished */)
                THEN 'it expired: its instance has ended, and had not waited for it'
                ELSE 'it expired: nothing has waited for it in time' END,
           x.id, x.hash, x.name, x.correlation_id, x.activity_execution_id, json_build_object('payload', x.payload), 0, 0,
           x.created_at
    FROM inbox_deleted x
    WHERE x.instance_id IS NOT NULL OR x.correlation_id IS NOT NULL OR x.activity_execution_id IS NOT NULL
), request_deleted AS (
    DELETE FROM idempotency_key q WHERE q.ctid = ANY (ARRAY(SELECT s.place FROM spent s)) RETURNING 1
)
SELECT (SELECT count(*) FROM inbox_deleted) + (SELECT count(*) FROM request_deleted)
       + (SELECT count(*) FROM unmatched_deleted) + (SELECT count(*) FROM dead_letter_deleted)
       + (SELECT count(*) FROM answer_deleted) + (SELECT count(*) FROM entry_deleted)
       + (SELECT count(*) FROM link_deleted) AS purged,
       ARRAY[(SELECT max(s.expires_at) FROM stale s), (SELECT max(s.expires_at) FROM spent s),
             (SELECT max(o.ended_at) FROM unmatched_old o), (SELECT max(o.created_at) FROM dead_letter_old o),
             (SELECT max(o.expires_at) FROM answer_old o), (SELECT max(o.at) FROM entry_old o),
             (SELECT max(o.expires_at) FROM link_old o)] AS reached
