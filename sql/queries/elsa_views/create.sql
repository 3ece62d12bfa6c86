-- purpose: make or renew the views by the names of Elsa's and Quartz's tables, which refuse every change
-- caller:  store::elsa_views
-- index:   none
-- locks:   the views
-- Those of Quartz are in `public`, where statements without a schema look, and in `elsa`, where those of a role `elsa` look first.
DO $$
DECLARE
    place text;
    view_name text;
BEGIN
    IF to_regnamespace('elsa') IS NULL THEN
        CREATE SCHEMA elsa;
    END IF;

    CREATE OR REPLACE FUNCTION elsa.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $refuse$
    BEGIN
        RAISE EXCEPTION '%.% is a view of Mainspring, and read-only', TG_TABLE_SCHEMA, TG_TABLE_NAME
            USING HINT = 'Delete instances with POST /elsa/api/bulk-actions/delete/workflow-instances; nodes purge all else themselves.',
                  ERRCODE = 'object_not_in_prerequisite_state';
    END $refuse$;

    -- Elsa's guides write the end of an instance as its status.
    CREATE OR REPLACE VIEW elsa.workflow_instances AS
    SELECT i.id, i.definition_id, i.version_id AS definition_version_id, i.definition_version AS version,
           i.parent_instance_id AS parent_workflow_instance_id,
           CASE i.sub_status WHEN 3 /* finished */ THEN 'Completed' WHEN 4 /* cancelled */ THEN 'Cancelled'
                             WHEN 5 /* faulted */ THEN 'Faulted' WHEN 2 /* suspended */ THEN 'Suspended'
                             ELSE 'Running' END AS status,
           sub_status_name(i.sub_status) AS sub_status, i.correlation_id, i.name, i.incident_count, i.created_at, i.updated_at,
           i.finished_at, i.tenant_id
    FROM instance i;

    CREATE OR REPLACE VIEW elsa.bookmarks AS
    SELECT b.id, b.name AS activity_type_name, b.name, encode(b.hash, 'hex') AS hash, b.instance_id AS workflow_instance_id,
           b.activity_id, b.node_id AS activity_node_id, b.activity_execution_id AS activity_instance_id, b.correlation_id,
           b.payload AS serialized_payload, b.created_at, b.tenant_id
    FROM bookmark b;

    FOREACH place IN ARRAY ARRAY['public', 'elsa'] LOOP
        -- Times are milliseconds since 1970, as in Quartz.
        EXECUTE format($view$
            CREATE OR REPLACE VIEW %I.qrtz_scheduler_state AS
            SELECT 'mainspring'::text AS sched_name, n.node_id || '/' || n.incarnation AS instance_name,
                   (extract(epoch FROM n.last_seen) * 1000)::bigint AS last_checkin_time,
                   coalesce((n.facts->>'checkInMs')::bigint, (extract(epoch FROM n.tolerance) * 1000)::bigint) AS checkin_interval
            FROM node n WHERE 'scheduler' = ANY (n.roles)$view$, place);
        -- What a node has claimed and not committed. A timer is claimed when it is due, and belongs to no node before.
        EXECUTE format($view$
            CREATE OR REPLACE VIEW %I.qrtz_fired_triggers AS
            SELECT 'mainspring'::text AS sched_name, t.instance_id || '/' || t.id || '/' || t.claim_no AS entry_id,
                   t.instance_id || '/' || t.id AS trigger_name, 'Elsa.Scheduling'::text AS trigger_group,
                   coalesce(n.node_id || '/' || n.incarnation, t.claimed_by::text) AS instance_name,
                   (extract(epoch FROM t.available_at) * 1000)::bigint AS fired_time,
                   (extract(epoch FROM t.due) * 1000)::bigint AS sched_time, 5 AS priority, 'EXECUTING'::text AS state,
                   'ResumeWorkflowTask'::text AS job_name, 'Elsa.Scheduling'::text AS job_group, true AS is_nonconcurrent,
                   true AS requests_recovery
            FROM timer t LEFT JOIN node n ON n.incarnation = t.claimed_by
            WHERE t.claimed_by IS NOT NULL$view$, place);
        EXECUTE format($view$
            CREATE OR REPLACE VIEW %I.qrtz_triggers AS
            SELECT 'mainspring'::text AS sched_name, t.instance_id || '/' || t.id AS trigger_name,
                   'Elsa.Scheduling'::text AS trigger_group, 'ResumeWorkflowTask'::text AS job_name,
                   'Elsa.Scheduling'::text AS job_group, ('bookmark ' || t.id || ' of instance ' || t.instance_id) AS description,
                   (extract(epoch FROM t.due) * 1000)::bigint AS next_fire_time, NULL::bigint AS prev_fire_time, 5 AS priority,
                   CASE WHEN t.claimed_by IS NULL THEN 'WAITING' ELSE 'ACQUIRED' END AS trigger_state, 'SIMPLE'::text AS trigger_type,
                   (extract(epoch FROM t.due) * 1000)::bigint AS start_time, 0::bigint AS end_time, NULL::text AS calendar_name,
                   0::smallint AS misfire_instr
            FROM timer t
            UNION ALL
            SELECT 'mainspring', s.id, 'Elsa.Scheduling', 'RunWorkflowTask', 'Elsa.Scheduling',
                   'activity ' || s.activity_id || ' of definition ' || s.definition_id,
                   (extract(epoch FROM s.next_fire) * 1000)::bigint, (extract(epoch FROM s.last_occurrence) * 1000)::bigint, 5,
                   CASE WHEN s.next_fire IS NULL THEN 'COMPLETE' WHEN s.paused THEN 'PAUSED' ELSE 'WAITING' END,
                   CASE s.activity_type WHEN 'Elsa.Cron' THEN 'CRON' ELSE 'SIMPLE' END,
                   (extract(epoch FROM s.anchor) * 1000)::bigint, 0, NULL, 0
            FROM schedule s$view$, place);
        FOREACH view_name IN ARRAY ARRAY['qrtz_scheduler_state', 'qrtz_fired_triggers', 'qrtz_triggers'] LOOP
            EXECUTE format('CREATE OR REPLACE TRIGGER refuse_change INSTEAD OF INSERT OR UPDATE OR DELETE ON %I.%I
                                FOR EACH ROW EXECUTE FUNCTION elsa.refuse_change()', place, view_name);
        END LOOP;
    END LOOP;
    FOREACH view_name IN ARRAY ARRAY['workflow_instances', 'bookmarks'] LOOP
        EXECUTE format('CREATE OR REPLACE TRIGGER refuse_change INSTEAD OF INSERT OR UPDATE OR DELETE ON elsa.%I
                            FOR EACH ROW EXECUTE FUNCTION elsa.refuse_change()', view_name);
    END LOOP;
END $$
