//! kill -9 in the middle of what is rare: a delete, a publish that changes an activation strategy, a replay, and what is
//! done when something else has gone wrong before.

use std::os::unix::process::ExitStatusExt;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::failpoints::{AFTER_A_FAILURE, DELETE, PAUSE, STRATEGY};
use crate::support::node::{Node, assert_invariants};
use crate::support::{Gate, Http, TIMEOUT, TestDatabase, poll_until, wait_until};

/// SIGABRT, by which a failpoint ends a process.
const ABORTED: i32 = 6;

fn waits(strategy: &str) -> Value {
    json!({"publish": true, "model": {"definitionId": "waits",
        "options": {"activationStrategyType": format!("Elsa.Workflows.Runtime.ActivationValidators.{strategy}, Elsa.Workflows.Runtime")},
        "root": {"type": "Elsa.Event", "id": "wait", "eventName": "never"}}})
}

async fn start(http: &Http) -> String {
    let answer = http.dispatch("waits", &json!({})).await;
    answer["workflowInstanceId"].as_str().unwrap().to_owned()
}

/// A request that its node does not survive.
async fn kills_its_node(node: &mut Node, method: Method, path: &str, body: Option<&Value>) {
    let http = node.http.clone().unwrap();
    let answer = http.send(method, path, &[], body).await;
    assert!(answer.is_err(), "{path} was answered: {answer:?}");
    node.child.wait(TIMEOUT);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delete_whose_node_dies_is_completed_by_the_next_delete() {
    let database = TestDatabase::create().await;
    let survivor = Node::start(&database, "survivor");
    let http = survivor.http.clone().unwrap();
    http.post("workflow-definitions", &waits("AllowAlwaysStrategy"))
        .await
        .expect(200);
    for point in DELETE {
        let id = start(&http).await;
        let path = format!("workflow-instances/{id}");
        http.instance_becomes(&id, "Suspended").await;
        let mut target = Node::start_armed(&database, "target", &format!("{point}=abort")).await;
        kills_its_node(&mut target, Method::DELETE, &path, None).await;
        // Whatever the dead one still held, others come by in the end.
        let status = poll_until(TIMEOUT, "the delete to be done", async || {
            let status = http.delete(&path).await.status;
            (status != 503).then_some(status)
        })
        .await;
        let done_before = point == "delete.committed";
        assert_eq!(status, if done_before { 404 } else { 204 }, "{point}");
        http.get(&path).await.expect(404);
        assert_invariants(&database).await;
    }
}

async fn kills_during_a_change_of_strategy(point: &str) {
    let database = TestDatabase::create().await;
    let survivor = Node::start(&database, "survivor");
    let http = survivor.http.clone().unwrap();
    http.post("workflow-definitions", &waits("AllowAlwaysStrategy"))
        .await
        .expect(200);
    let running = start(&http).await;
    let writer = database.connect().await;
    if point == "activation.waits" {
        // A writer that the publisher waits for.
        let writes = "BEGIN; LOCK TABLE mainspring.work IN ROW EXCLUSIVE MODE";
        writer.run(writes).await;
    }
    let mut target = Node::start_armed(&database, "target", &format!("{point}=abort")).await;
    let singleton = waits("SingletonStrategy");
    kills_its_node(&mut target, Method::POST, "workflow-definitions", Some(&singleton)).await;
    writer.run("ROLLBACK").await;
    let dispatch = async || http.post("workflow-definitions/waits/dispatch", &json!({})).await;
    let refused = poll_until(TIMEOUT * 2, "starts to be decided again", async || {
        let answer = dispatch().await;
        (answer.status != 503).then_some(answer)
    })
    .await;
    assert_eq!(refused.expect(409)["code"], "cannot-start", "what runs counts");
    http.delete(&format!("workflow-instances/{running}")).await.expect(204);
    dispatch().await.expect(200);
    assert_eq!(dispatch().await.status, 409);
    assert_invariants(&database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_strategy_whose_node_dies_is_finished_by_the_cluster() {
    for point in STRATEGY {
        kills_during_a_change_of_strategy(point).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_dies_while_it_handles_a_failure_has_run_nothing_twice() {
    let database = TestDatabase::create().await;
    let api_node = Node::start_with(&database, "api-node", &["--check-in", "200ms", "--workers", "0"], "");
    let http = api_node.http.clone().unwrap();
    let model = json!({"definitionId": "says", "root": {"type": "Elsa.WriteLine", "id": "say", "text": "here"}});
    http.publish(&model).await;
    for point in AFTER_A_FAILURE {
        let answer = http.post("workflow-definitions/says/dispatch", &json!({})).await;
        let id = answer.expect(200)["workflowInstanceId"].as_str().unwrap().to_owned();
        let gate = Gate::new();
        let failure = match point {
            "claim.release" => "burst.after=error".to_owned(),
            _ => gate.stalls("burst.after"),
        };
        let failpoints = format!("{failure};{point}=abort");
        let mut target = Node::start_armed(&database, "target", &failpoints).await;
        if point == "classify.before" {
            gate.reached().await;
            let claims = "UPDATE mainspring.work SET claim_no = claim_no + 1";
            assert_eq!(database.connect().await.execute(claims, &[]).await.unwrap(), 1);
            gate.open();
        }
        let died = target.child.wait(TIMEOUT);
        assert_eq!(died.signal(), Some(ABORTED), "{point} was not reached");
        let _again = Node::start(&database, "target");
        http.instance_becomes(&id, "Finished").await;
        let journal = http.get(&format!("workflow-instances/{id}/journal")).await.expect(200);
        let ended = |entry: &&Value| entry["activityId"] == "say" && entry["eventName"] == "Completed";
        assert_eq!(
            journal["items"].as_array().unwrap().iter().filter(ended).count(),
            1,
            "{journal}"
        );
        assert_invariants(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_whose_replay_kills_its_node_is_kept() {
    let database = TestDatabase::create().await;
    let survivor = Node::start(&database, "survivor");
    let http = survivor.http.clone().unwrap();
    http.trigger("late", &json!({"correlationId": "nobody"})).await;
    let expire = "UPDATE mainspring.inbox SET expires_at = now();
                  UPDATE mainspring.cluster_job SET next_run_at = now() WHERE name = 'purge-expired'";
    database.connect().await.run(expire).await;
    let dead_letters = async || http.get("cluster/dead-letters").await.expect(200)["items"].clone();
    let dead_letter = poll_until(TIMEOUT, "the event to be dead-lettered", async || {
        dead_letters().await[0]["id"].as_str().map(str::to_owned)
    })
    .await;
    let replay = format!("cluster/dead-letters/{dead_letter}/replay");
    let mut target = Node::start_armed(&database, "target", "replay.taken=abort").await;
    kills_its_node(&mut target, Method::POST, &replay, Some(&json!({}))).await;
    // Its transaction may end a moment after it.
    let replayed = poll_until(TIMEOUT, "the replay to be done", async || {
        let answer = http.post(&replay, &json!({})).await;
        (answer.status != 503).then_some(answer)
    })
    .await;
    assert_eq!(replayed.expect(200)["replayed"], true);
    assert_eq!(dead_letters().await, json!([]));
    assert_invariants(&database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_whose_node_dies_during_recomputation_is_recomputed_by_the_next_node() {
    let database = TestDatabase::create().await;
    let first = Node::start(&database, "first");
    let model = json!({"definitionId": "daily", "root": {"type": "Elsa.Cron", "id": "nine", "canStartWorkflow": true,
        "cronExpression": {"typeName": "String", "expression": {"type": "Literal", "value": "0 9 * * *"}}}});
    let http = first.http.clone().unwrap();
    http.publish(&model).await;
    let client = database.connect().await;
    let older = "UPDATE mainspring.schedule SET tz_version = '1999a'";
    assert_eq!(client.execute(older, &[]).await.unwrap(), 1);
    let stale = async || -> i64 {
        let query = "SELECT count(*) FROM mainspring.schedule WHERE tz_version = '1999a'";
        client.query_one(query, &[]).await.unwrap().get(0)
    };
    let mut target = Node::start_armed(&database, "target", "fire.computed=abort").await;
    target.child.wait(TIMEOUT);
    assert_eq!(stale().await, 1);
    let _next = Node::start(&database, "target");
    wait_until("the schedule to be computed again", async || stale().await == 0).await;
    assert_invariants(&database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_whose_node_dies_holds_or_is_not_begun_and_the_next_request_completes_it() {
    for point in PAUSE {
        let database = TestDatabase::create().await;
        let mut one = Node::start_armed(&database, "one", &format!("{point}=abort")).await;
        let http = one.http.clone().unwrap();
        let model = json!({"definitionId": "says", "root": {"type": "Elsa.WriteLine", "id": "say", "text": "here"}});
        http.publish(&model).await;
        // For a transaction like this one a pause waits.
        let mut client = database.connect().await;
        let accepting = client.transaction().await.unwrap();
        let lock = "LOCK TABLE mainspring.work IN ROW EXCLUSIVE MODE";
        accepting.batch_execute(lock).await.unwrap();
        let paused = http
            .send(Method::POST, "admin/workflow-runtime/pause", &[], Some(&json!({})))
            .await;
        assert!(paused.is_err(), "{point} was not reached");
        assert_eq!(one.child.wait(TIMEOUT).signal(), Some(ABORTED), "{point}");
        accepting.rollback().await.unwrap();

        let two = Node::start(&database, "two");
        let http = two.http.clone().unwrap();
        let status = http.get("admin/workflow-runtime/status").await.expect(200);
        assert_eq!(
            status["state"]["isAcceptingNewWork"],
            json!(point == "pause.set"),
            "{point}"
        );
        http.post("admin/workflow-runtime/pause", &json!({})).await.expect(200);
        let refused = http.post("workflow-definitions/says/execute", &json!({})).await;
        refused.assert_refused(503, "runtime-paused");
        http.post("admin/workflow-runtime/resume", &json!({})).await.expect(200);
        http.post("workflow-definitions/says/execute", &json!({}))
            .await
            .expect(200);
        assert_invariants(&database).await;
    }
}
