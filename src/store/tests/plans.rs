//! The hot statements, as they stand in their files, find their rows by the indexes that their headers name, however
//! full the tables are.

use crate::store::commit::tests::fixture::Fixture;

/// The tables that grow, with what fills them.
const FILL: &str = "
    INSERT INTO instance (tenant_id, id, definition_id, version_id, definition_version, status, sub_status, version)
        SELECT '', 'i' || n, 'd' || n % 20, 'd1', 1, 0, 2, 1 FROM generate_series(1, 100000) n;
    INSERT INTO instance_state (tenant_id, id, state) SELECT '', 'i' || n, '{}' FROM generate_series(1, 100000) n;
    INSERT INTO bookmark (tenant_id, instance_id, id, activity_id, node_id, activity_execution_id, name, hash, payload,
                          publishable)
        SELECT '', 'i' || n, 'b', 'a', 'n', 'e', 'Elsa.Event', sha256(n::text::bytea), '{}', true
        FROM generate_series(1, 100000) n;
    INSERT INTO work (tenant_id, instance_id, kind, body, claimed_by, available_at)
        SELECT '', 'i' || n, 1, '{}', CASE WHEN n % 100 = 0 THEN 4711 + n % 3 END, now() - n * interval '1 second'
        FROM generate_series(1, 100000) n;
    INSERT INTO timer (tenant_id, instance_id, id, due, available_at, claimed_by)
        SELECT '', 'i' || n, 'b', now(), now() + (n - 50000) * interval '1 second',
               CASE WHEN n % 100 = 0 THEN 4711 + n % 3 END
        FROM generate_series(1, 100000) n;
    INSERT INTO inbox (tenant_id, hash, name, expires_at)
        SELECT '', sha256(n::text::bytea), 'Elsa.Event', now() + n * interval '1 second'
        FROM generate_series(1, 20000) n;
    INSERT INTO journal (tenant_id, instance_id, sequence, at, version, happened_at, event_name, activity_execution_id,
                         activity_id, activity_type, activity_type_version, node_id)
        SELECT '', 'i' || n, 1, now(), 1, now(), 'Started', '', 'a', 't', 1, 'n' FROM generate_series(1, 20000) n;
    INSERT INTO request (tenant_id, route, key, fingerprint, expires_at)
        SELECT '', 'start', 'k' || n, '', now() + n * interval '1 second' FROM generate_series(1, 20000) n;
    INSERT INTO definition (tenant_id, version_id, definition_id, version, is_latest, is_published, was_published, body)
        SELECT '', 'd' || n || 'v' || v, 'd' || n, v, v = 2, v = 1, true, '{}'
        FROM generate_series(1, 10000) n, generate_series(1, 2) v;
    INSERT INTO trigger (tenant_id, definition_id, activity_id, hash, name, payload)
        SELECT '', 'd' || n, 'a', sha256(n::text::bytea), 'Elsa.Event', '{}' FROM generate_series(1, 10000) n;
    INSERT INTO activation (tenant_id, key, instance_id, exclusive, strategy, definition_id)
        SELECT '', sha256(n::text::bytea), 'i' || n, true, 1, 'd' || n FROM generate_series(1, 20000) n;
    INSERT INTO schedule (tenant_id, id, definition_id, activity_id, activity_type, spec, anchor, tz_version, overlap,
                          next_occurrence, next_fire, paused, queued)
        SELECT '', 's' || n, 'd' || n % 10000, 'a' || n, 'Elsa.Timer', '{}', now(), '2026a', n % 3,
               now() + (n - 100) * interval '1 second', now() + (n - 100) * interval '1 second', n % 50 = 0,
               CASE WHEN n % 1000 = 2 THEN '{}'::json END
        FROM generate_series(1, 100000) n;
    ANALYZE";

const BIG: [&str; 11] = [
    "schedule",
    "activation",
    "instance",
    "instance_state",
    "bookmark",
    "work",
    "timer",
    "inbox",
    "request",
    "trigger",
    "definition",
];

struct Hot {
    name: &'static str,
    sql: &'static str,
    /// Arguments as a caller would give them, by which a custom plan is made.
    arguments: &'static str,
    /// Runs on a connection that was told to avoid scans.
    scans_off: bool,
}

macro_rules! hot {
    ($name:literal, $arguments:literal, $scans_off:literal) => {
        Hot {
            name: $name,
            sql: include_str!(concat!("../../../sql/queries/", $name, ".sql")),
            arguments: $arguments,
            scans_off: $scans_off,
        }
    };
}

const HOT: [Hot; 24] = [
    hot!(
        "work_peek",
        "64, array['','']::text[], array['i1','i2']::text[], true",
        false
    ),
    hot!(
        "work_peek_fresh",
        "64, array['','']::text[], array['i1','i2']::text[], 5000000",
        false
    ),
    hot!(
        "work_peek_partial",
        "64, array['']::text[], array['i1']::text[], true, array['']::text[], array['d9']::text[], now() - interval '1 day'",
        false
    ),
    hot!(
        "work_claim",
        "4711, array['','']::text[], array['i1','i2']::text[], 100, true",
        false
    ),
    hot!("instance_load", "array['','']::text[], array['i1','i2']::text[]", false),
    hot!(
        "commit_batch",
        "4711, 0, array[row(0,'','i1',1,null,1,'d','d1',1,0,2,null,null,0,'',0)::commit_request],
         array[row(0,1,null,1)::commit_claim, row(0,null,'b',1)::commit_claim], '{}', array[row(0,'b')::commit_burned],
         '{}', '{}', '{}', '{}', '{}', '{}', '{}'",
        true
    ),
    hot!(
        "commit_classify",
        "4711, 0, array[row(0,'','i1',1,null,1,'d','d1',1,0,2,null,null,0,'',0)::commit_request],
         array[row(0,1,null,1)::commit_claim, row(0,null,'b',1)::commit_claim]",
        true
    ),
    hot!(
        "event_publish",
        "'', 'event', 'key', '', sha256('7'), 'Elsa.Event', '{}', null, null, null, 1000000",
        false
    ),
    hot!("node_pulse", "4711", false),
    hot!("depart_release", "4711", false),
    hot!("depart_remaining", "4711", false),
    hot!(
        "work_release",
        "4711, array['']::text[], array['i1']::text[], array[1]::bigint[], array['b']::text[], array[1]::bigint[], 1::smallint, 1000, ''",
        false
    ),
    hot!("work_mine", "4711", false),
    hot!(
        "accept_start",
        "4711, array[row(0,'','new','d','{}','start','k','')::accept_start], true",
        true
    ),
    hot!("expire", "", false),
    hot!("activation_stage", "'', 'd1'", false),
    hot!("schedule_due", "500", false),
    hot!("schedule_next", "", false),
    hot!("schedule_find", "'', 's7'", false),
    hot!("schedule_lock", "'', 'd7'", false),
    hot!("schedule_clear", "'', 'd7', array['s7']", true),
    hot!(
        "schedule_set",
        "'', 's7', 1, false, '2026e', now(), now(), now()",
        false
    ),
    hot!(
        "schedule_fire",
        "array[row(0,'','s7',1,'2026e',now(),now(),now(),null,0,0,0)::schedule_turn],
         array[row(0,'new','a','{}',0)::schedule_start], false, 'node'",
        true
    ),
    hot!("instance_delete", "'', 'i1', now()", false),
];

/// The indexes of big tables that the header names, save those that ON CONFLICT meets: no plan shows them.
fn named(sql: &str) -> Vec<&str> {
    sql.lines()
        .find_map(|line| line.strip_prefix("-- index:"))
        .unwrap()
        .split(',')
        .map(str::trim)
        .filter(|index| !["request_pkey", "activation_held"].contains(index))
        .filter(|index| BIG.iter().any(|table| index.starts_with(&format!("{table}_"))))
        .collect()
}

#[tokio::test]
async fn hot_statements_find_their_rows_by_index() {
    let fixture = Fixture::new().await;
    fixture
        .admin
        .client
        .batch_execute("SET statement_timeout = '2min'")
        .await
        .unwrap();
    fixture.admin.client.batch_execute(FILL).await.unwrap();
    let mut bad = Vec::new();
    for hot in HOT {
        for mode in ["force_generic_plan", "force_custom_plan"] {
            let plan = explain(&fixture, &hot, mode).await;
            if plan.contains("Seq Scan on journal_") && !plan.contains("Index Scan using journal_") {
                bad.push(format!("{} ({mode}) scans the journal\n{plan}", hot.name));
            }
            for table in BIG {
                if plan.contains(&format!("Seq Scan on {table} ")) {
                    bad.push(format!("{} ({mode}) scans {table}\n{plan}", hot.name));
                }
            }
            if ["work_peek", "work_peek_fresh"].contains(&hot.name) && plan.matches("hashed SubPlan").count() != 2 {
                bad.push(format!(
                    "{} ({mode}) compares each row with the whole list\n{plan}",
                    hot.name
                ));
            }
            for index in named(hot.sql) {
                let mut words = plan.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                if !words.any(|word| word == index) {
                    bad.push(format!("{} ({mode}) does not use {index}\n{plan}", hot.name));
                }
            }
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

async fn explain(fixture: &Fixture, hot: &Hot, mode: &str) -> String {
    let session = fixture.session().await;
    let scans = if hot.scans_off { "off" } else { "on" };
    let arguments = if hot.arguments.is_empty() {
        String::new()
    } else {
        format!("({})", hot.arguments)
    };
    let plan = session
        .client
        .simple_query(&format!(
            "SET enable_seqscan = {scans}; SET plan_cache_mode = {mode}; PREPARE hot AS {};
             EXPLAIN EXECUTE hot{arguments}",
            hot.sql
        ))
        .await
        .unwrap_or_else(|error| panic!("{}: {error:?}", hot.name));
    plan.iter()
        .filter_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        })
        .collect::<Vec<_>>()
        .join("\n")
}
