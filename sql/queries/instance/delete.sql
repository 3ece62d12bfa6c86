-- purpose: delete an instance with all that belongs to it except its records, or a start that is not committed yet;
--          returns whether there was one, its rows of work, and whether rows were missed that other sessions hold: those
--          may wait for our locks, so the caller starts again instead of waiting
-- caller:  store::instance::delete, in the transaction that holds its locks
-- index:   instance_pkey, bookmark_pkey, timer_pkey, work_instance, inbox_instance, dead_letter_instance, activation_instance, child_pkey, child_parent, child_root, resume_link_instance
-- locks:   all of its rows; locked work and timers are skipped, inbox by id
-- `first` and `last`: between which times their records are, which a statement of its own deletes.
-- Idempotency keys stay: a retry of the start finds no instance, and starts none.
WITH deleted AS (
    DELETE FROM instance i WHERE i.tenant_id = $1 AND i.id = $2
    RETURNING i.status, i.created_at, i.updated_at
), work_held AS MATERIALIZED (
    SELECT w.tenant_id, w.id FROM work w WHERE w.tenant_id = $1 AND w.instance_id = $2
    ORDER BY w.tenant_id, w.id FOR UPDATE SKIP LOCKED
), timer_held AS MATERIALIZED (
    SELECT t.id FROM timer t WHERE t.tenant_id = $1 AND t.instance_id = $2
    ORDER BY t.tenant_id, t.instance_id, t.id FOR UPDATE SKIP LOCKED
), inbox_held AS MATERIALIZED (
    -- A row of the inbox is never updated, so that it is found where it is locked.
    SELECT x.ctid AS place FROM inbox x WHERE x.tenant_id = $1 AND x.instance_id = $2 ORDER BY x.tenant_id, x.id FOR UPDATE
), work_deleted AS (
    DELETE FROM work w USING work_held h WHERE w.tenant_id = h.tenant_id AND w.id = h.id RETURNING w.id, w.kind
), bookmark_deleted AS (
    DELETE FROM bookmark b WHERE b.tenant_id = $1 AND b.instance_id = $2
), timer_deleted AS (
    DELETE FROM timer t USING timer_held h WHERE t.tenant_id = $1 AND t.instance_id = $2 AND t.id = h.id
), activation_deleted AS (
    DELETE FROM activation a WHERE a.tenant_id = $1 AND a.instance_id = $2
), inbox_deleted AS (
    DELETE FROM inbox x USING inbox_held h WHERE x.ctid = h.place
), link_deleted AS (
    DELETE FROM resume_link l WHERE l.tenant_id = $1 AND l.instance_id = $2
), dead_letter_deleted AS (
    DELETE FROM dead_letter d WHERE d.tenant_id = $1 AND d.instance_id = $2 RETURNING d.kind
), child_deleted AS (
    DELETE FROM child c WHERE c.tenant_id = $1 AND c.id = $2 RETURNING c.*
), parent_woken AS (
    INSERT INTO work (tenant_id, instance_id, kind, body)
    SELECT c.tenant_id, c.parent_instance_id, 7 /* child end */, child_end(c.bookmark_id, c.parent_generation,
               child_result(c.id, 'Faulted', 'the instance ' || c.id || ' was deleted'))
    FROM child_deleted c
    WHERE c.bookmark_id IS NOT NULL
      AND (SELECT true FROM instance p
           WHERE p.id = c.parent_instance_id AND p.tenant_id = c.tenant_id AND p.status = 0 /* running */ LIMIT 1)
    RETURNING 1
), children_cancelled AS (
    -- The children of an instance that runs or has not been committed, as by a cancel; the id of a cancel is negative. Also
    -- those whose parents ran in its burst and were not committed.
    INSERT INTO work (tenant_id, id, instance_id, kind, body) OVERRIDING SYSTEM VALUE
    SELECT c.tenant_id, -nextval('work_id_seq'), c.id, 3 /* cancel */, '{}'
    FROM (SELECT x.tenant_id, x.id FROM child x WHERE x.tenant_id = $1 AND x.parent_instance_id = $2
          UNION ALL
          SELECT x.tenant_id, x.id FROM child x
          WHERE x.tenant_id = $1 AND x.root_instance_id = $2
            AND (SELECT true FROM instance p WHERE p.id = x.parent_instance_id AND p.tenant_id = x.tenant_id LIMIT 1) IS NULL) c
    WHERE EXISTS (SELECT 1 FROM deleted d WHERE d.status = 0 /* running */)
       OR EXISTS (SELECT 1 FROM work_deleted w WHERE w.kind = 0 /* start */)
       OR EXISTS (SELECT 1 FROM dead_letter_deleted d WHERE d.kind = 0 /* start */)
    RETURNING 1
)
SELECT EXISTS (SELECT 1 FROM deleted) OR EXISTS (SELECT 1 FROM work_deleted w WHERE w.kind = 0 /* start */)
       OR EXISTS (SELECT 1 FROM dead_letter_deleted d WHERE d.kind = 0 /* start */) AS known,
       (SELECT d.created_at FROM deleted d) AS first, (SELECT d.updated_at FROM deleted d) AS last,
       ARRAY(SELECT w.id FROM work_deleted w ORDER BY w.id) AS works,
       (SELECT count(*) FROM parent_woken) + (SELECT count(*) FROM children_cancelled) AS made,
       (SELECT count(*) FROM work w WHERE w.tenant_id = $1 AND w.instance_id = $2) > (SELECT count(*) FROM work_held)
       OR (SELECT count(*) FROM timer t WHERE t.tenant_id = $1 AND t.instance_id = $2)
          > (SELECT count(*) FROM timer_held) AS missed
