//! A set of variables and a burst never overwrite each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use mainspring::Engine;
use mainspring::id::InstanceId;
use mainspring::lock::{HeldLock, LocalLocks, LockHandle, LockProvider, LockRequest, LockStats};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::support::engine::{GateActivity, TestEngine, event, start_as};
use crate::support::failpoints::VARIABLES;
use crate::support::node::{Node, assert_invariants};
use crate::support::single_node::literal;
use crate::support::{Gate, TIMEOUT, TestDatabase, wait_until};

/// Locks of one process that do not tell where they are kept, so that nodes with others start beside it.
struct Apart(LocalLocks);

impl LockProvider for Apart {
    fn acquire(&self, request: LockRequest, timeout: Duration) -> BoxFuture<'_, mainspring::Result<LockHandle>> {
        self.0.acquire(request, timeout)
    }

    fn try_acquire(&self, request: LockRequest) -> BoxFuture<'_, mainspring::Result<Option<LockHandle>>> {
        self.0.try_acquire(request)
    }

    fn stats(&self) -> LockStats {
        self.0.stats()
    }

    fn held(&self) -> Vec<HeldLock> {
        self.0.held()
    }
}

/// Waits for `go`, runs `middle`, and outputs `N` as a text.
fn counts(middle: &Value) -> Value {
    let script = json!({"typeName": "Object", "expression": {"type": "JavaScript", "value": "'n=' + getN()"}});
    json!({"definitionId": "counts",
        "variables": [{"id": "v", "name": "N", "typeName": "Int32", "value": 1}],
        "outputs": [{"name": "Out", "type": "Object"}],
        "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
            {"type": "Elsa.Event", "id": "wait", "eventName": literal("go")},
            middle,
            {"type": "Elsa.SetOutput", "id": "out", "outputName": literal("Out"), "outputValue": script}]}})
}

async fn eight(engine: &Engine) -> mainspring::Result<Value> {
    let values = vec![("v".to_owned(), json!("8"))];
    let set = engine.set_instance_variables(&"i".into(), values).await;
    set.map(|all| json!(all))
}

/// A node whose bursts stop in the activity `Gate`, with locks that no other node sees if `apart`.
async fn gated(apart: bool) -> (TestEngine, Arc<AtomicUsize>, Arc<Semaphore>) {
    let database = TestDatabase::create().await;
    let (entered, permits) = (Arc::<AtomicUsize>::default(), Arc::new(Semaphore::new(0)));
    let gate = GateActivity {
        entered: Arc::clone(&entered),
        permits: Arc::clone(&permits),
    };
    let builder = Engine::builder(database.url())
        .activity(gate)
        .check_in(Duration::from_millis(100));
    let builder = if apart {
        builder.locks(Apart(LocalLocks::new()))
    } else {
        builder
    };
    let test = TestEngine::start(database, builder).await;
    test.publish(counts(&json!({"type": "Gate", "id": "gate"}))).await;
    test.engine.dispatch(start_as("i", "counts")).await.unwrap();
    test.reaches(&"i".into(), "Suspended").await;
    test.trigger("go", Value::Null).await;
    wait_until("the burst to be held", async || entered.load(Ordering::SeqCst) == 1).await;
    (test, entered, permits)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_during_a_held_burst_is_refused() {
    let (test, entered, permits) = gated(false).await;
    let other = test.beside().await;
    for engine in [&test.engine, &other] {
        assert_eq!(eight(engine).await.unwrap_err().code(), "instance-busy");
    }
    permits.add_permits(1);
    let state = test.finishes(&"i".into()).await;
    assert_eq!(state["output"]["Out"], "n=1");
    assert_eq!(entered.load(Ordering::SeqCst), 1, "the burst was not disturbed");
    assert_eq!(eight(&other).await.unwrap_err().code(), "instance-finished");
    other.shutdown().await;
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_that_a_set_overtakes_loses_and_begins_again() {
    let (test, entered, permits) = gated(true).await;
    // Its locks are its own: only the fences are between the two.
    let other = test.beside().await;
    let set = eight(&other).await.unwrap();
    assert_eq!(set, json!([{"id": "v", "name": "N", "value": 8}]));
    permits.add_permits(2);
    let state = test.finishes(&"i".into()).await;
    assert_eq!(state["output"]["Out"], "n=8", "the update was lost");
    assert_eq!(entered.load(Ordering::SeqCst), 2);
    other.shutdown().await;
    test.assert_clean_end().await;
}

/// Starts an instance that waits.
async fn waiting(http: &crate::support::Http) {
    http.publish(&counts(
        &json!({"type": "Elsa.WriteLine", "id": "w", "text": literal("x")}),
    ))
    .await;
    http.dispatch("counts", &json!({"instanceId": "i"})).await;
    http.instance_becomes("i", "Suspended").await;
}

fn eight_body() -> Value {
    json!({"variables": [{"id": "v", "value": 8}]})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_that_begins_during_a_set_runs_on_what_was_set() {
    let database = TestDatabase::create().await;
    let gate = Gate::new();
    let one = Node::start_with(&database, "one", &["--check-in", "200ms"], &gate.stalls(VARIABLES[0]));
    let two = Node::start(&database, "two");
    let (setter, http) = (one.http.clone().unwrap(), two.http.clone().unwrap());
    waiting(&http).await;
    let setting = tokio::spawn(async move { setter.post("workflow-instances/i/variables", &eight_body()).await });
    gate.reached().await;
    // The event is claimed by either node, and its burst must wait for the lock.
    http.trigger("go", &json!({})).await;
    wait_until("a node to find the lock held", async || {
        [&one, &two]
            .iter()
            .any(|node| node.child.logs("resume already in progress for workflow i"))
    })
    .await;
    assert_eq!(http.get("workflow-instances/i").await.body["subStatus"], "Suspended");
    gate.open();
    let set = setting.await.unwrap().expect(200);
    assert_eq!(
        set,
        json!({"items": [{"id": "v", "name": "N", "value": 8}], "count": 1})
    );
    http.instance_becomes("i", "Finished").await;
    let detail = http.get("workflow-instances/i").await.expect(200);
    assert_eq!(detail["workflowState"]["output"]["Out"], "n=8");
    assert_invariants(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_whose_node_dies_changes_nothing() {
    let database = TestDatabase::create().await;
    let two = Node::start(&database, "two");
    let http = two.http.clone().unwrap();
    waiting(&http).await;
    for point in VARIABLES {
        let mut one = Node::start_armed(&database, "one", &format!("{point}=abort")).await;
        let target = one.http.clone().unwrap();
        let body = eight_body();
        let sent = target.send(
            reqwest::Method::POST,
            "workflow-instances/i/variables",
            &[],
            Some(&body),
        );
        assert!(sent.await.is_err());
        one.child.wait(TIMEOUT);
    }
    let listed = http.get("workflow-instances/i/variables").await.expect(200);
    assert_eq!(listed["items"][0]["value"], 1);
    // The lock ended with its process.
    wait_until("the lock to be free", async || {
        http.post("workflow-instances/i/variables", &eight_body()).await.status == 200
    })
    .await;
    http.trigger("go", &json!({})).await;
    http.instance_becomes("i", "Finished").await;
    assert_invariants(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sets_and_events_at_once_lose_nothing() {
    let test = TestEngine::new().await;
    let turn = json!({"type": "Elsa.Sequence", "id": "turn", "activities": [
        {"type": "Elsa.Event", "id": "wait", "eventName": literal("go")},
        {"type": "Elsa.SetVariable", "id": "add", "variable": {"id": "m", "name": "M"},
         "value": {"typeName": "Int32", "expression": {"type": "JavaScript", "value": "getM() + 1"}}}]});
    let forever = json!({"typeName": "Boolean", "expression": {"type": "Literal", "value": true}});
    test.publish(json!({"definitionId": "adds",
        "variables": [{"id": "m", "name": "M", "typeName": "Int32", "value": 0},
                      {"id": "v", "name": "N", "typeName": "Int32", "value": 0}],
        "root": {"type": "Elsa.While", "id": "loop", "condition": forever, "body": turn}}))
        .await;
    test.engine.dispatch(start_as("i", "adds")).await.unwrap();
    let id = InstanceId::from("i");
    test.reaches(&id, "Suspended").await;
    let other = test.worker().await;
    let mut setters = Vec::new();
    for engine in [test.engine.clone(), other.clone()] {
        setters.push(tokio::spawn(async move {
            let mut set = 0;
            for n in 0..20 {
                match engine
                    .set_instance_variables(&"i".into(), vec![("v".to_owned(), json!(n))])
                    .await
                {
                    Ok(_) => set += 1,
                    Err(error) => assert_eq!(error.code(), "instance-busy"),
                }
            }
            set
        }));
    }
    for _ in 0..20 {
        test.engine.trigger_event(event("go", Value::Null)).await.unwrap();
    }
    let mut set = 0;
    for setter in setters {
        set += setter.await.unwrap();
    }
    assert!(set > 0, "no set was made");
    wait_until("every event to count", async || {
        test.engine.instance_variables(&id).await.unwrap()[0].value == 20
    })
    .await;
    other.shutdown().await;
    test.assert_clean_end().await;
}
