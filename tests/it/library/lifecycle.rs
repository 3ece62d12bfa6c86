//! The life cycle of a node: bursts that run while calls, databases and processes end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mainspring::Engine;
use mainspring::lock::{LocalLocks, LockProvider, LockRequest};
use mainspring::runtime::{Executed, StartRequest};
use serde_json::{Map, json};
use tokio::sync::Semaphore;

use crate::support::engine::{GateActivity, TestEngine, entered, gated, start, start_as};
use crate::support::{TIMEOUT, TestDatabase, poll_until, wait_until};

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_call_cancels_nothing() {
    let (test, count, permits) = gated().await;
    let request = start_as("left", "gated");
    let call = tokio::spawn({
        let engine = test.engine.clone();
        async move { engine.execute(request).await }
    });
    entered(&count, 1).await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    permits.add_permits(1);
    test.finishes(&"left".into()).await;
    assert_eq!(count.load(Ordering::SeqCst), 1);
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_wins_over_a_running_burst() {
    let (test, count, permits) = gated().await;
    let id = test.engine.dispatch(start("gated")).await.unwrap();
    entered(&count, 1).await;
    let cancel = test.cancels(&id);
    let client = test.database.connect().await;
    poll_until(TIMEOUT, "the cancel to be accepted", async || {
        let kinds = client
            .query("SELECT 1 FROM mainspring.work WHERE kind = 3", &[])
            .await
            .ok()?;
        // It may be done before it is seen.
        (!kinds.is_empty() || cancel.is_finished()).then_some(())
    })
    .await;
    permits.add_permits(1);
    cancel.await.unwrap().unwrap();
    // It had not been committed before: the start that runs again is followed by the cancel in the same burst, or the
    // first burst won, and there was nothing left to cancel.
    permits.add_permits(1);
    let state = poll_until(TIMEOUT, "an end", async || {
        let detail = test.engine.instance(&id).await.ok()?;
        (detail.summary.status == "Finished").then_some(detail.summary.sub_status)
    })
    .await;
    assert!(state == "Cancelled" || state == "Finished", "{state}");
    assert!(!test.engine.cancel(&id).await.unwrap());
    assert!(test.engine.cancel(&"nobody".into()).await.unwrap_err().is_not_found());
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_database_calls_fail_and_the_node_recovers() {
    let (test, count, permits) = gated().await;
    let run = tokio::spawn({
        let engine = test.engine.clone();
        async move { engine.execute(start_as("through", "gated")).await }
    });
    entered(&count, 1).await;
    test.database.lock_out().await;
    wait_until("the node to notice", async || !test.engine.readiness().ready()).await;
    let refused = test.engine.dispatch(start("gated")).await.unwrap_err();
    assert!(refused.is_unavailable() || refused.is_unknown_outcome(), "{refused:?}");
    test.database.allow_connections(true).await;
    permits.add_permits(8);
    wait_until("the node to be ready again", async || test.engine.readiness().ready()).await;
    test.finishes(&"through".into()).await;
    let executed: Executed = run.await.unwrap().unwrap();
    assert_eq!(executed.instance_id.as_str(), "through");
    let again = test.engine.execute(start("gated")).await.unwrap();
    assert_eq!(again.sub_status(), Some("Finished"));
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_finishes_running_bursts_and_releases_late_ones() {
    let (test, count, permits) = gated().await;
    let id = test.engine.dispatch(start("gated")).await.unwrap();
    entered(&count, 1).await;
    let engine = test.engine.clone();
    let shutdown = tokio::spawn(async move { engine.shutdown().await });
    wait_until("the drain to begin", async || !test.engine.readiness().ready()).await;
    permits.add_permits(1);
    shutdown.await.unwrap();
    let client = test.database.connect().await;
    let status = client
        .query_one("SELECT status FROM mainspring.instance WHERE id = $1", &[&id.as_str()])
        .await
        .unwrap();
    assert_eq!(status.get::<_, i16>(0), 1);
    test.assert_clean_end().await;

    let (test, count, permits) = gated().await;
    let url = test.database.url();
    let gate = GateActivity {
        entered: Arc::clone(&count),
        permits: Arc::clone(&permits),
    };
    let hasty = Engine::builder(&url)
        .activity(gate)
        .drain_timeout(Duration::from_millis(10))
        .start()
        .await
        .unwrap();
    test.engine.shutdown().await;
    let id = hasty.dispatch(start("gated")).await.unwrap();
    entered(&count, 1).await;
    hasty.shutdown().await;
    let client = test.database.connect().await;
    let free = "SELECT claimed_by IS NULL FROM mainspring.work WHERE instance_id = $1";
    assert!(client.query_one(free, &[&id.as_str()]).await.unwrap().get::<_, bool>(0));
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_run_yields_and_goes_on() {
    let test = TestEngine::new().await;
    let set = json!({"type": "Elsa.SetVariable", "id": "set", "variable": {"id": "n", "name": "N"},
        "value": {"typeName": "Object", "expression": {"type": "JavaScript", "value": "getN() + 1"}}});
    test.publish(
        json!({"definitionId": "long", "variables": [{"id": "n", "name": "N", "typeName": "Int32", "value": 0}],
            "root": {"type": "Elsa.While", "id": "while", "body": set,
            "condition": {"typeName": "Boolean", "expression": {"type": "JavaScript", "value": "getN() < 2500"}}}}),
    )
    .await;
    let run = test.engine.execute(start("long")).await.unwrap();
    assert_eq!(run.sub_status(), Some("Finished"));
    let client = test.database.connect().await;
    let row = client
        .query_one("SELECT version FROM mainspring.instance", &[])
        .await
        .unwrap();
    assert!(row.get::<_, i64>(0) >= 3, "it yielded");
    test.assert_clean_end().await;
}

/// Without the notification, only the node that runs the instance sees the new row.
#[tokio::test(flavor = "multi_thread")]
async fn work_for_an_instance_that_keeps_yielding_is_included() {
    let (test, count, permits) = gated().await;
    permits.add_permits(Semaphore::MAX_PERMITS / 2);
    let turn = json!({"type": "Gate", "id": "turn", "customProperties": {"commitStrategyName": "Executed"}});
    let forever = json!({"typeName": "Boolean", "expression": {"type": "Literal", "value": true}});
    let root = json!({"type": "Elsa.While", "id": "while", "body": turn, "condition": forever});
    test.publish(json!({"definitionId": "again", "root": root})).await;
    let id = test.engine.dispatch(start("again")).await.unwrap();
    entered(&count, 3).await;
    let client = test.database.connect().await;
    let resume = "INSERT INTO mainspring.work (tenant_id, instance_id, kind, body)
                  SELECT tenant_id, id, 1, '{\"bookmarkId\": \"none\"}' FROM mainspring.instance";
    client.run(resume).await;
    client.wait_for_rows("work WHERE kind = 1", 0).await;
    let so_far = count.load(Ordering::SeqCst);
    entered(&count, so_far + 3).await;
    test.engine.cancel(&id).await.unwrap();
    test.reaches(&id, "Cancelled").await;
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_id_is_used_by_one_process() {
    let test = TestEngine::new().await;
    let refused = Engine::builder(test.database.url())
        .node_id("one")
        .check_in(Duration::from_millis(100))
        .tolerance(Duration::from_millis(300))
        .start()
        .await
        .err()
        .unwrap();
    assert_eq!(refused.code(), "node-id-in-use");
    let other = Engine::builder(test.database.url())
        .node_id("two")
        .start()
        .await
        .unwrap();
    assert!(other.readiness().ready());
    other.shutdown().await;
    test.assert_clean_end().await;
}

/// As where all the connections that a server has are taken.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_leaves_over_its_existing_connections() {
    let (test, ..) = gated().await;
    test.database.allow_connections(false).await;
    test.engine.shutdown().await;
    test.database.allow_connections(true).await;
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_is_dropped_leaves_its_work_to_the_next_under_its_name() {
    let (test, count, permits) = gated().await;
    let url = test.database.url();
    test.engine.shutdown().await;
    let named = |count: &Arc<AtomicUsize>, permits: &Arc<Semaphore>| {
        let gate = GateActivity {
            entered: Arc::clone(count),
            permits: Arc::clone(permits),
        };
        Engine::builder(&url).node_id("again").activity(gate)
    };
    let first = named(&count, &permits).start().await.unwrap();
    let input = Map::from_iter([("n".to_owned(), json!(1))]);
    let id = first
        .dispatch(StartRequest {
            input,
            ..start("gated")
        })
        .await
        .unwrap();
    entered(&count, 1).await;
    drop(first);
    let second = named(&count, &permits).start().await.unwrap();
    permits.add_permits(2);
    let test = TestEngine {
        database: test.database,
        engine: second,
    };
    test.finishes(&id).await;
    test.assert_clean_end().await;
}

/// What an example prints.
fn example(name: &str) -> String {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let database = runtime.block_on(TestDatabase::create());
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_mainspring"))
        .with_file_name("examples")
        .join(name);
    let output = std::process::Command::new(binary)
        .env("DATABASE_URL", database.url())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_program_does_the_task_of_a_workflow() {
    assert_eq!(example("tasks"), "Weigh {\"parcel\":7}\nShipping 1200 g\n");
}

#[test]
fn the_example_runs() {
    let said = example("embedded");
    assert!(
        said.starts_with("Hello, world!\n") && said.ends_with(" is Finished\n"),
        "{said}"
    );
}

#[test]
fn the_example_of_a_workflow_as_an_activity_runs() {
    let said = example("workflow_as_activity");
    assert!(
        said.starts_with("Good day, Ada\n") && said.ends_with(" is Finished\n"),
        "{said}"
    );
}

#[test]
fn the_example_of_a_state_machine_runs() {
    let said = example("state_machine");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        lines,
        [
            "The order waits for Paid, Cancelled",
            "packed",
            "labelled",
            "shipped",
            "The order is Finished"
        ]
    );
}

#[test]
fn the_example_with_children_runs() {
    let said = example("children");
    let mut lines: Vec<&str> = said.lines().collect();
    assert!(lines.pop().unwrap().ends_with(" is Finished"), "{said}");
    assert_eq!(lines.pop(), Some("3 greetings"), "{said}");
    lines.sort_unstable();
    assert_eq!(lines, ["Hello, Ada!", "Hello, Bob!", "Hello, Cyd!"]);
}

/// The fewest connections that a node can do with: the pooled one, over which starts are accepted, too, and one each for
/// locks, hints, watching, checking in, commits, and reads by key, of which that of the cluster's sample recurs.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_a_pool_of_one_has_seven_connections() {
    let database = TestDatabase::create().await;
    let builder = Engine::builder(database.url()).pool_size(1);
    let engine = builder.check_in(Duration::from_millis(100)).start().await.unwrap();
    let test = TestEngine { database, engine };
    let line = json!({"type": "Elsa.WriteLine", "id": "line", "text": "Hello"});
    test.publish(json!({"definitionId": "hello", "root": line})).await;
    let taken = start_as("taken", "hello");
    test.engine.dispatch(taken.clone()).await.unwrap();
    let starts = (0..100).map(|n| {
        let (engine, taken) = (&test.engine, taken.clone());
        async move {
            match n % 4 {
                0 => assert!(engine.dispatch(taken).await.unwrap_err().is_conflict()),
                1 | 2 => drop(engine.dispatch(start("hello")).await.unwrap()),
                _ => assert!(!engine.execute(start("hello")).await.unwrap().pending),
            }
        }
    });
    futures_util::future::join_all(starts).await;
    let client = test.database.connect().await;
    client.wait_for_rows("instance WHERE status = 1", 76).await;
    wait_until("seven connections", async || {
        let open =
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
                    AND backend_type = 'client backend'";
        client.count(open).await <= 7
    })
    .await;
    test.assert_clean_end().await;
}

/// The claim of a start protects it until there is an instance that other nodes may load.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_takes_its_lock_when_it_goes_on_after_its_first_commit() {
    let database = TestDatabase::create().await;
    let (count, permits) = (Arc::<AtomicUsize>::default(), Arc::new(Semaphore::new(0)));
    let locks = LocalLocks::new();
    let builder = Engine::builder(database.url())
        .activity(GateActivity {
            entered: Arc::clone(&count),
            permits: Arc::clone(&permits),
        })
        .locks(locks.clone())
        .check_in(Duration::from_millis(100));
    let test = TestEngine::start(database, builder).await;
    let one = json!({"type": "Gate", "id": "one", "customProperties": {"commitStrategyName": "Executed"}});
    let two = json!({"type": "Gate", "id": "two"});
    let both = json!({"type": "Elsa.Sequence", "id": "both", "activities": [one, two]});
    test.publish(json!({"definitionId": "twice", "root": both})).await;
    let id = test.engine.dispatch(start("twice")).await.unwrap();
    let name = id.to_string();
    let is_held = || locks.held().iter().any(|held| *held.name == *name);
    entered(&count, 1).await;
    assert!(!is_held(), "its first burst took a lock");
    permits.add_permits(1);
    entered(&count, 2).await;
    assert!(is_held(), "it went on without its lock");
    permits.add_permits(1);
    test.finishes(&id).await;

    // Another owner holds the lock when the instance is to continue: it does so when the lock is released.
    let id = test.engine.dispatch(start("twice")).await.unwrap();
    entered(&count, 3).await;
    let lock = LockRequest::exclusive(id.to_string());
    let theirs = locks
        .try_acquire(lock)
        .await
        .unwrap()
        .expect("its first burst took a lock");
    permits.add_permits(1);
    let client = test.database.connect().await;
    client
        .wait_for_rows("work WHERE claimed_by IS NULL AND kind = 4", 1)
        .await;
    assert_eq!(count.load(Ordering::SeqCst), 3, "it went on without its lock");
    drop(theirs);
    entered(&count, 4).await;
    permits.add_permits(1);
    test.finishes(&id).await;
    test.assert_clean_end().await;
}

#[test]
fn the_example_of_a_take_over_repeats_the_key() {
    let said = example("take_over");
    let (first, second) = said.trim_end().split_once('\n').unwrap();
    let key = first.strip_prefix("first: attempt 1 under the key ").unwrap();
    assert!(second.ends_with(&format!(" under the key {key}")), "{said}");
    assert!(!second.starts_with("attempt 1 "), "{said}");
}
