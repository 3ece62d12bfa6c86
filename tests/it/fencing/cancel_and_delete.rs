//! Cancel and delete win over a burst that runs on another node.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::node::{Node, assert_invariants};
use crate::support::single_node::literal;
use crate::support::{Answer, Connection, Gate, Http, TestDatabase, wait_until};

/// A node that runs everything and stalls at a failpoint, and a node without workers.
struct TwoNodes {
    database: TestDatabase,
    client: Connection,
    gate: Gate,
    runner: Node,
    _api: Node,
    at_runner: Http,
    at_api: Http,
}

impl TwoNodes {
    async fn new(point: &str, passage: u32) -> Self {
        let database = TestDatabase::create().await;
        let gate = Gate::new();
        let stall = format!("{}@{passage}", gate.stalls(point));
        let runner = Node::start_with(&database, "runner", &["--check-in", "200ms", "--log", "debug"], &stall);
        let api = Node::start_with(&database, "api-node", &["--check-in", "200ms", "--workers", "0"], "");
        let (at_runner, at_api) = (runner.http.clone().unwrap(), api.http.clone().unwrap());
        let line = |id: &str| json!({"type": "Elsa.WriteLine", "id": id, "text": literal(id)});
        let wait = json!({"type": "Elsa.Event", "id": "wait", "eventName": literal("go")});
        let model = json!({"definitionId": "w", "root": {"type": "Elsa.Sequence", "id": "root",
            "activities": [line("before"), wait, line("after")]}});
        at_api.publish(&model).await;
        let client = database.connect().await;
        Self {
            database,
            client,
            gate,
            runner,
            _api: api,
            at_runner,
            at_api,
        }
    }

    /// Starts an instance; its first burst runs, or stalls.
    async fn start(&self) -> String {
        let start = json!({"correlationId": "c"});
        let answer = self.at_runner.post("workflow-definitions/w/dispatch", &start).await;
        let id = answer.expect(200)["workflowInstanceId"].clone();
        id.as_str().unwrap().to_owned()
    }

    async fn waits(&self) {
        self.client.wait_for_rows("bookmark", 1).await;
    }

    /// Both nodes show the instance as cancelled, and the activity has not completed.
    async fn is_cancelled(&self, id: &str, not_done: &str) {
        for http in [&self.at_api, &self.at_runner] {
            let instance = http.get(&format!("workflow-instances/{id}")).await.expect(200);
            assert_eq!(instance["subStatus"], "Cancelled", "{instance}");
            assert_eq!(instance["correlationId"], "c", "{instance}");
        }
        let done = format!(
            "SELECT count(*) FROM mainspring.journal WHERE activity_id = '{not_done}' AND event_name = 'Completed'"
        );
        assert_eq!(self.client.count(&done).await, 0);
        assert_eq!(self.client.rows("work").await, 0);
        assert_invariants(&self.database).await;
    }

    /// Requests a cancel and does not wait for the answer.
    fn cancels(&self, id: &str) -> tokio::task::JoinHandle<Answer> {
        let (http, path) = (self.at_api.clone(), format!("cancel/workflow-instances/{id}"));
        tokio::spawn(async move { http.post(&path, &json!({})).await })
    }

    async fn delete(&self, id: &str) -> Answer {
        self.at_api.delete(&format!("workflow-instances/{id}")).await
    }

    /// No table has anything of any instance.
    async fn nothing_is_left(&self) {
        for table in [
            "instance",
            "bookmark",
            "timer",
            "work",
            "inbox",
            "activation",
            "dead_letter",
            "journal",
            "activity_execution",
        ] {
            let left = self.client.rows(table).await;
            assert_eq!(left, 0, "{table}");
        }
        assert_invariants(&self.database).await;
    }
}

/// A burst that would not end otherwise, as the gate stays closed until it has stopped.
async fn stops(passage: u32, not_done: &str) {
    let two = TwoNodes::new("burst.running", passage).await;
    let id = two.start().await;
    if passage > 1 {
        two.waits().await;
        two.at_api.trigger("go", &json!({})).await;
    }
    two.gate.reached().await;
    let cancels = two.cancels(&id);
    wait_until("the burst to stop", async || {
        let child = &two.runner.child;
        child.logs("the instance was cancelled or deleted; its burst stops")
    })
    .await;
    // For the burst that carries out the cancel.
    two.gate.open();
    cancels.await.unwrap().expect(200);
    two.is_cancelled(&id, not_done).await;
    // Cancelling twice is as good as once.
    two.cancels(&id).await.unwrap().expect(200);
    assert_eq!(two.cancels("unknown").await.unwrap().status, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_stops_a_long_burst_elsewhere() {
    stops(2, "after").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_stops_the_first_burst_elsewhere() {
    stops(1, "before").await;
}

/// A burst that has come to its end, and is about to commit when it is cancelled.
async fn refused_at_its_commit(passage: u32, not_done: &str) {
    let two = TwoNodes::new("burst.after", passage).await;
    let id = two.start().await;
    if passage > 1 {
        two.waits().await;
        two.at_api.trigger("go", &json!({})).await;
    }
    two.gate.reached().await;
    let cancels = two.cancels(&id);
    two.client.wait_for_rows("work WHERE kind = 3", 1).await;
    two.gate.open();
    cancels.await.unwrap().expect(200);
    two.is_cancelled(&id, not_done).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_that_was_cancelled_elsewhere_is_refused_at_its_commit() {
    refused_at_its_commit(2, "after").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_burst_that_was_cancelled_elsewhere_is_refused_at_its_commit() {
    refused_at_its_commit(1, "before").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delete_ends_a_running_burst_and_answers_its_caller() {
    for (passage, point) in [
        (1, "burst.after"),
        (2, "burst.after"),
        (1, "burst.running"),
        (2, "burst.running"),
    ] {
        let two = TwoNodes::new(point, passage).await;
        let id = "mine".to_owned();
        let http = two.at_runner.clone();
        let execute = {
            let start = json!({"instanceId": "mine", "correlationId": "c"});
            http.dispatch("w", &start).await;
            if passage > 1 {
                two.waits().await;
            } else {
                two.gate.reached().await;
            }
            let path = format!("workflow-instances/{id}/resume");
            tokio::spawn(async move { http.post(&path, &json!({})).await })
        };
        if passage > 1 {
            two.gate.reached().await;
        }
        assert_eq!(two.delete(&id).await.status, 204);
        // The gate is closed: the burst has not ended, but the caller has its answer.
        let answer = execute.await.unwrap();
        if passage > 1 {
            answer.assert_refused(404, "instance-not-found");
        } else {
            // Before its first commit there was nothing to resume.
            assert!([404, 409].contains(&answer.status), "{}", answer.body);
        }
        two.nothing_is_left().await;
        two.gate.open();
        // Whatever the burst does now, it writes nothing; this one runs behind it.
        let again = json!({"correlationId": "c"});
        two.at_runner.execute("w", &again).await;
        assert_eq!(two.client.rows("instance").await, 1);
        let other = two.client.rows("journal WHERE instance_id = 'mine'").await;
        assert_eq!(other, 0);
        let answer = two.delete(&id).await;
        answer.assert_refused(404, "instance-not-found");
        assert_invariants(&two.database).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_execute_on_another_node_is_answered_after_the_delete() {
    let two = TwoNodes::new("burst.after", 1).await;
    let http = two.at_runner.clone();
    let execute = tokio::spawn(async move { http.post("workflow-definitions/w/execute", &json!({})).await });
    two.gate.reached().await;
    let id: String = two
        .client
        .query_one("SELECT instance_id FROM mainspring.work", &[])
        .await
        .unwrap()
        .get(0);
    let deleted = json!({"ids": [id, "unknown"]});
    let answer = two
        .at_api
        .post("bulk-actions/delete/workflow-instances/by-id", &deleted);
    assert_eq!(answer.await.expect(200), json!({"deleted": 1}));
    let answer = execute.await.unwrap();
    answer.assert_refused(404, "instance-not-found");
    two.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_killed_in_the_middle_of_a_delete_has_deleted_all_or_nothing() {
    for point in ["delete.before", "delete.locked", "delete.written", "delete.committed"] {
        let database = TestDatabase::create().await;
        let other = Node::start(&database, "other");
        let armed = Node::start_armed(&database, "armed", &format!("{point}=abort")).await;
        crate::support::node::publish(other.http.as_ref().unwrap()).await;
        let http = other.http.clone().unwrap();
        let start = json!({"instanceId": "i", "input": {"n": 0}});
        http.dispatch("walk", &start).await;
        let client = database.connect().await;
        wait_until("the instance to wait", async || {
            let waiting = client.rows("bookmark WHERE name = 'Elsa.Event'").await;
            waiting == 1
        })
        .await;
        let path = "workflow-instances/i";
        let answer = armed.http.unwrap().send(Method::DELETE, path, &[], None).await;
        answer.unwrap_err();
        // The dead one's locks go with its connections.
        let status = http.delete(path).await.status;
        assert_eq!(status, if point == "delete.committed" { 404 } else { 204 }, "{point}");
        for table in ["instance", "journal", "activity_execution", "bookmark"] {
            let count = format!("SELECT count(*) FROM mainspring.{table}");
            let left = client.count(&count).await;
            assert_eq!(left, 0, "{point} {table}");
        }
        assert_invariants(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bulk_actions_affect_exactly_the_selected_instances() {
    let two = TwoNodes::new("never", 1).await;
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(two.start().await);
    }
    two.client.wait_for_rows("bookmark", 4).await;
    let http = &two.at_runner;
    let cancel = "bulk-actions/cancel/workflow-instances";
    let one = json!({"ids": [ids[0], "unknown"]});
    assert_eq!(http.post(cancel, &one).await.expect(200), json!({"cancelled": 1}));
    assert_eq!(http.post(cancel, &one).await.expect(200), json!({"cancelled": 0}));
    let definition = json!({"definitionId": "w", "versionOptions": "Published"});
    assert_eq!(
        http.post(&format!("{cancel}/"), &definition).await.expect(200),
        json!({"cancelled": 3})
    );
    assert_eq!(http.post(cancel, &json!({})).await.expect(200), json!({"cancelled": 0}));
    assert_eq!(http.post(cancel, &json!({"definitionId": "w"})).await.status, 400);
    let delete = "bulk-actions/delete/workflow-instances";
    let refused = http.post(delete, &json!({})).await;
    refused.assert_refused(400, "missing-field");
    assert_eq!(
        http.post(delete, &json!({"ids": []})).await.expect(200),
        json!({"deleted": 0})
    );
    let other = json!({"ids": ids, "workflowDefinitionId": "other"});
    assert_eq!(http.post(delete, &other).await.expect(200), json!({"deleted": 0}));
    let first_two = json!({"ids": ids[..2], "workflowDefinitionId": "w"});
    assert_eq!(http.post(delete, &first_two).await.expect(200), json!({"deleted": 2}));
    let all = json!({"workflowDefinitionIds": ["w"]});
    assert_eq!(http.post(delete, &all).await.expect(200), json!({"deleted": 2}));
    two.nothing_is_left().await;
    assert_eq!(
        http.get(&format!("workflow-instances/{}", ids[0])).await.body["code"],
        Value::from("instance-not-found")
    );
}
