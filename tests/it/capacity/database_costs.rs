//! What a workflow costs the server, counted in its log of changes, and in statements that it gets: numbers that no load beside
//! it moves. A change that raises one says so by changing it here.
//!
//! Left out: images of whole pages, which depend on the time of the last checkpoint; splits of pages of an index, and what the
//! server clears away; and what the nodes write of themselves.

use std::collections::BTreeMap;
use std::time::Duration;

use mainspring::Engine;
use mainspring::id::InstanceId;
use mainspring::webhook::{WebhookSecret, WebhookSink};
use serde_json::{Value, json};

use crate::support::engine::{TestEngine, event, start};
use crate::support::receiver::Receiver;
use crate::support::{Connection, TIMEOUT, TestDatabase, poll_until};

/// How many of each are measured, one after another: each step is a transaction of its own.
const MEASURED: u32 = 40;
/// The bytes depend on the digits of the times in them, and a little on the way through the node.
const TOLERANCE: f64 = 0.03;

/// A busy machine lets a poll claim what the node that accepted it would have run at once.
const TRIES: u32 = 3;

/// Of one workflow.
#[derive(Clone, Copy, Debug)]
struct Cost {
    wal_bytes: f64,
    /// Rows inserted, updated and deleted.
    rows: f64,
    index_entries: f64,
    transactions: f64,
    /// That the nodes send; BEGIN, COMMIT and SET are statements, too. Not a number where the server does not count them.
    statements: f64,
}

const fn cost(wal_bytes: f64, rows: f64, index_entries: f64, transactions: f64, statements: f64) -> Cost {
    Cost {
        wal_bytes,
        rows,
        index_entries,
        transactions,
        statements,
    }
}

const EXPECTED: [(&str, Cost); 7] = [
    ("dispatch", cost(1928.0, 4.0, 7.0, 2.0, 2.0)),
    ("execute", cost(1926.0, 4.0, 7.0, 2.0, 2.0)),
    ("two steps", cost(3412.0, 7.0, 8.0, 3.0, 5.0)),
    ("event", cost(5632.0, 12.0, 19.0, 5.0, 22.0)),
    ("timer", cost(4817.0, 11.0, 13.0, 4.0, 12.0)),
    ("child", cost(9312.0, 18.0, 29.0, 6.0, 23.0)),
    // Its end is an event for a sink, which has it. How many events the sender reads and marks at once depends on the time.
    ("webhook", cost(3000.0, 6.0, 12.0, 3.0, f64::NAN)),
];

/// The records of the log between two places, in bytes, by relation.
const COUNT: &str = "
    WITH place AS (SELECT '0/0'::pg_lsn + $1::bigint AS first, '0/0'::pg_lsn + $2::bigint AS last),
    block AS (
        SELECT DISTINCT ON (b.start_lsn) b.start_lsn, b.xid::text AS xid, b.resource_manager || ' ' || b.record_type AS kind,
               b.record_length - coalesce(b.block_fpi_length, 0) AS bytes, c.relname::text AS relation
        FROM place p, pg_get_wal_block_info(p.first, p.last, false) b
        JOIN pg_class c ON pg_relation_filenode(c.oid) = b.relfilenode
        WHERE b.reldatabase = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()) AND b.relforknumber = 0
          -- What is not of the system.
          AND c.oid >= 16384 AND c.relname !~ '^(node|fence|cluster_job|cluster_sample|cluster_second)'
        ORDER BY b.start_lsn, b.block_id
    ), written AS (
        SELECT b.relation, b.xid,
               CASE WHEN b.kind ~ '^Btree SPLIT' THEN 0 ELSE b.bytes END AS bytes,
               b.kind ~ '^Heap (INSERT|UPDATE|HOT_UPDATE|DELETE)|^Heap2 MULTI_INSERT' AS is_row,
               b.kind ~ '^Btree (INSERT_LEAF|INSERT_POST|SPLIT)' AS is_entry
        FROM block b
        WHERE b.kind ~ '^Heap (INSERT|UPDATE|HOT_UPDATE|DELETE|LOCK)|^Heap2 MULTI_INSERT|^Btree (INSERT|SPLIT)'
    ), ended AS (
        SELECT r.record_length AS bytes
        FROM place p, pg_get_wal_records_info(p.first, p.last) r
        WHERE r.resource_manager = 'Transaction' AND r.xid::text IN (SELECT w.xid FROM written w)
    )
    SELECT w.relation, sum(w.bytes)::bigint AS wal_bytes, count(*) FILTER (WHERE w.is_row) AS rows,
           count(*) FILTER (WHERE w.is_entry) AS index_entries, 0::bigint AS transactions
    FROM written w GROUP BY w.relation
    UNION ALL
    SELECT 'transactions', (SELECT sum(e.bytes) FROM ended e)::bigint, 0, 0, (SELECT count(DISTINCT w.xid) FROM written w)
    ORDER BY 1";

fn line(id: &str) -> Value {
    json!({"type": "Elsa.WriteLine", "id": id, "text": {"typeName": "String", "expression": {"type": "Literal", "value": "Hello"}}})
}

fn literal(type_name: &str, value: &Value) -> Value {
    json!({"typeName": type_name, "expression": {"type": "Literal", "value": value}})
}

fn sequence(id: &str, commits: Option<&str>, activities: &[Value]) -> Value {
    let root = json!({"type": "Elsa.Sequence", "id": "root", "activities": activities});
    json!({"definitionId": id, "options": {"commitStrategyName": commits}, "root": root})
}

async fn publish(test: &TestEngine) {
    test.publish(sequence("hello", None, &[line("line")])).await;
    let steps = [line("first"), line("second")];
    test.publish(sequence("steps", Some("ActivityExecuted"), &steps)).await;
    let waits = json!({"type": "Elsa.Event", "id": "event", "eventName": literal("String", &json!("Go"))});
    test.publish(sequence("waits", None, &[waits])).await;
    let delay =
        json!({"type": "Elsa.Delay", "id": "delay", "timeSpan": literal("TimeSpan", &json!("00:00:00.0010000"))});
    test.publish(sequence("delay", None, &[delay])).await;
    let child = json!({"type": "Elsa.DispatchWorkflow", "id": "child", "waitForCompletion": literal("Boolean", &json!(true)),
        "workflowDefinitionId": literal("String", &json!("hello"))});
    test.publish(sequence("parent", None, &[child])).await;
    test.publish(sequence("hooked", None, &[line("line")])).await;
}

/// A sink that wants the end of that one only.
async fn register(engine: &Engine, url: &str) {
    let mut sink = WebhookSink::new("crm", url, WebhookSecret::random());
    sink.event_types = vec!["WorkflowInstance.Finished".to_owned()];
    sink.definitions = vec!["hooked".to_owned()];
    engine.add_webhook_sink(&sink).await.unwrap();
}

/// Waits by a session whose statements are not counted.
async fn finished(client: &Connection, id: &InstanceId) {
    let finished = format!(
        "SELECT count(*) FROM mainspring.instance WHERE id = '{id}' AND status = 1 AND sub_status = 3 /* finished */"
    );
    poll_until(TIMEOUT, "the instance to finish", async || {
        (client.count(&finished).await == 1).then_some(())
    })
    .await;
}

/// Runs one workflow to its end.
async fn run(engine: &Engine, client: &Connection, name: &str) {
    let executed = async |definition: &str| {
        let executed = engine.execute(start(definition)).await.unwrap();
        executed.instance_id
    };
    match name {
        "dispatch" => {
            let id = engine.dispatch(start("hello")).await.unwrap();
            finished(client, &id).await;
        }
        "execute" => drop(executed("hello").await),
        "two steps" => drop(executed("steps").await),
        "event" => {
            let id = executed("waits").await;
            engine.trigger_event(event("Go", json!(1))).await.unwrap();
            finished(client, &id).await;
        }
        "timer" => finished(client, &executed("delay").await).await,
        "webhook" => {
            let id = executed("hooked").await;
            let delivered = format!(
                "SELECT count(*) FROM mainspring.webhook_delivery WHERE instance_id = '{id}' AND state = 1 /* delivered */"
            );
            poll_until(TIMEOUT, "the event to be delivered", async || {
                (client.count(&delivered).await == 1).then_some(())
            })
            .await;
        }
        _ => finished(client, &executed("parent").await).await,
    }
}

/// How far the log reaches, in bytes; all before it is on disk.
async fn reached(client: &Connection) -> i64 {
    client
        .batch_execute("SET synchronous_commit = on; SELECT pg_logical_emit_message(true, '', '')")
        .await
        .unwrap();
    client
        .count("SELECT (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint")
        .await
}

/// How often each statement was sent, by its text.
async fn statements(client: &Connection) -> BTreeMap<String, i64> {
    let sql = "
        SELECT q.query, sum(q.calls)::bigint AS calls FROM pg_stat_statements q
        WHERE q.dbid = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
        GROUP BY q.query";
    let rows = client.query(sql, &[]).await.unwrap();
    rows.iter().map(|row| (row.get("query"), row.get("calls"))).collect()
}

/// The cost of one, and the lines of its parts by relation.
async fn measure(test: &TestEngine, client: &Connection, name: &str, counts_statements: bool) -> (Cost, Vec<String>) {
    let before = if counts_statements {
        statements(client).await
    } else {
        BTreeMap::new()
    };
    let first = reached(client).await;
    for _ in 0..MEASURED {
        run(&test.engine, client, name).await;
    }
    let last = reached(client).await;
    let mut all = cost(0.0, 0.0, 0.0, 0.0, 0.0);
    let mut parts = Vec::new();
    for row in client.query(COUNT, &[&first, &last]).await.unwrap() {
        let of_one = |name: &str| row.get::<_, i64>(name) as f64 / f64::from(MEASURED);
        let part = cost(
            of_one("wal_bytes"),
            of_one("rows"),
            of_one("index_entries"),
            of_one("transactions"),
            0.0,
        );
        all.wal_bytes += part.wal_bytes;
        all.rows += part.rows;
        all.index_entries += part.index_entries;
        all.transactions += part.transactions;
        parts.push(format!("  {}: {part:?}", row.get::<_, String>("relation")));
    }
    if counts_statements {
        for (text, calls) in statements(client).await {
            let of_one = (calls - before.get(&text).unwrap_or(&0)) as f64 / f64::from(MEASURED);
            // What is sent by the clock, as the check-in and a poll that finds nothing, is a fraction.
            all.statements += of_one.round();
            if of_one > 0.0 {
                parts.push(format!("  {of_one} of {text}"));
            }
        }
    } else {
        all.statements = f64::NAN;
    }
    (all, parts)
}

/// A line for each part of the cost that is not as expected.
fn compared(name: &str, found: Cost, expected: Cost) -> Vec<String> {
    let parts = [
        ("WAL bytes", found.wal_bytes, expected.wal_bytes),
        ("rows", found.rows, expected.rows),
        ("index entries", found.index_entries, expected.index_entries),
        ("transactions", found.transactions, expected.transactions),
        ("statements", found.statements, expected.statements),
    ];
    let off = |(_, found, expected): &&(&str, f64, f64)| (found / expected - 1.0).abs() > TOLERANCE;
    let off = parts.iter().filter(off);
    off.map(|(part, found, expected)| format!("{name}: {found} {part}, not {expected}"))
        .collect()
}

/// Lets the server count the statements of sessions that begin from now on, if it can: those of this one are not counted.
async fn count_statements(client: &Connection, database: &str) -> bool {
    let loaded = "SELECT count(*) FROM pg_settings
        WHERE name = 'shared_preload_libraries' AND setting ~ 'pg_stat_statements'";
    if client.count(loaded).await == 0 {
        eprintln!("statements are not counted: the server has no shared_preload_libraries = 'pg_stat_statements'");
        return false;
    }
    let begin = format!(
        "CREATE EXTENSION pg_stat_statements; ALTER DATABASE {database} SET pg_stat_statements.track = 'top';
         ALTER DATABASE {database} SET compute_query_id = 'on'"
    );
    client.batch_execute(&begin).await.unwrap();
    true
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_costs_the_server_no_more_than_is_written_here() {
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    if client
        .count("SELECT current_setting('server_version_num')::bigint")
        .await
        < 160_000
    {
        eprintln!("not counted: pg_get_wal_block_info exists from PostgreSQL 16 on");
        return;
    }
    // A checkpoint meanwhile keeps what is to be counted: the slot is of this session.
    let keep = "CREATE EXTENSION pg_walinspect;
        SELECT pg_create_physical_replication_slot('costs_' || pg_backend_pid(), true, true)";
    client.batch_execute(keep).await.unwrap();
    let counts_statements = count_statements(&client, database.name()).await;
    let builder = Engine::builder(database.url())
        .node_id("one")
        .check_in(Duration::from_millis(500));
    let test = TestEngine::start(database, builder).await;
    publish(&test).await;
    let receiver = Receiver::start().await;
    register(&test.engine, receiver.url()).await;
    // A node learns of the definitions, and the tables get their first pages.
    for (name, _) in EXPECTED.iter().cycle().take(5 * EXPECTED.len()) {
        run(&test.engine, &client, name).await;
    }
    let mut wrong = Vec::new();
    for (name, expected) in EXPECTED {
        let mut off = Vec::new();
        for _ in 0..TRIES {
            let (found, relations) = measure(&test, &client, name, counts_statements).await;
            off = compared(name, found, expected);
            if off.is_empty() {
                break;
            }
            off.extend(relations);
        }
        wrong.extend(off);
    }
    drop(client);
    test.assert_clean_end().await;
    assert!(
        wrong.is_empty(),
        "change the numbers in this file, and say why:\n{}",
        wrong.join("\n")
    );
}
