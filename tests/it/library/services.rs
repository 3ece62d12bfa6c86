//! Engines that a program gives its own lock, wake and signal providers.

use std::time::Duration;

use mainspring::Engine;
use mainspring::lock::{LocalLocks, LockProvider};
use mainspring::runtime::VersionOptions;
use mainspring::signal::LocalSignal;
use mainspring::wake::{LocalWake, WakeNotification, WakeTransport};
use serde_json::json;

use crate::support::engine::{event, save, start, waits_for};
use crate::support::{TestDatabase, wait_until};

/// So rare that none comes while the test runs.
const NEVER: Duration = Duration::from_secs(600);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn engines_of_one_process_do_without_notify_and_advisory_locks() {
    let database = TestDatabase::create().await;
    let (hub, signal) = (LocalWake::default(), LocalSignal::default());
    let locks = LocalLocks::new();
    let engine = async |name: &str, workers: usize| {
        Engine::builder(database.url())
            .node_id(name)
            .workers(workers)
            .check_in(NEVER)
            .tolerance(NEVER * 3)
            .wake(hub.member())
            .signal(signal.clone())
            .locks(locks.clone())
            .start()
            .await
            .unwrap()
    };
    let (api_node, runner) = (engine("api-node", 0).await, engine("runner", 8).await);
    let save = async |name: &str| {
        let mut definition = waits_for("word", "Word", false);
        definition["name"] = json!(name);
        save(&api_node, definition).await;
    };
    let shown = async || {
        let shown = runner
            .definition(&"word".into(), VersionOptions::Published)
            .await
            .unwrap();
        shown["name"].as_str().unwrap().to_owned()
    };
    save("old").await;
    assert_eq!(shown().await, "old");
    save("new").await;
    wait_until("the other engine to show the new version", async || {
        shown().await == "new"
    })
    .await;

    let waiting = api_node.execute(start("word")).await.unwrap();
    assert_eq!(waiting.sub_status(), Some("Suspended"));
    api_node.trigger_event(event("Word", json!("hello"))).await.unwrap();
    wait_until("the event to be worked on", async || {
        let detail = api_node.instance(&waiting.instance_id).await.unwrap();
        detail.summary.sub_status == "Finished"
    })
    .await;

    assert!(locks.stats().granted > 0);
    let client = database.connect().await;
    let listening = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN mainspring_w%'";
    assert_eq!(client.count(listening).await, 0);
    api_node.shutdown().await;
    runner.shutdown().await;
    assert_eq!(mainspring::check(&database.url(), "mainspring").await.unwrap(), []);
}

/// However many starts it accepts at a time: a poll in flight holds permits that it has not used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_with_free_workers_notifies_no_node() {
    const COUNT: usize = 100;
    let database = TestDatabase::create().await;
    let hub = LocalWake::default();
    let mut heard = hub.member().subscribe();
    let builder = Engine::builder(database.url()).workers(2 * COUNT).wake(hub.member());
    let engine = builder.check_in(NEVER).tolerance(NEVER * 3).start().await.unwrap();
    let line = json!({"definitionId": "line", "root": {"type": "Elsa.WriteLine", "id": "line", "text": "x"}});
    save(&engine, line).await;
    for dispatched in futures_util::future::join_all((0..COUNT).map(|_| engine.dispatch(start("line")))).await {
        dispatched.unwrap();
    }
    let client = database.connect().await;
    wait_until("all to finish", async || {
        let finished = client.rows("instance WHERE sub_status = 3").await;
        usize::try_from(finished).unwrap() == COUNT
    })
    .await;
    // Earlier notifications arrive before this one.
    hub.member()
        .notify(vec![WakeNotification::InstanceCancelled("".into(), "end".into())]);
    loop {
        let hints = heard.recv().await.unwrap();
        for hint in hints.iter() {
            match hint {
                WakeNotification::InstanceCancelled(..) => return engine.shutdown().await,
                said => assert!(
                    !matches!(said, WakeNotification::Poll | WakeNotification::WorkReady(_)),
                    "{said:?}"
                ),
            }
        }
    }
}
