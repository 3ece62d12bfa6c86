//! Tasks: `GET /tasks` and `POST /tasks/{taskId}/complete`, with two nodes.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::node::{Node, assert_invariants};
use crate::support::single_node::literal;
use crate::support::{Http, TestDatabase, assert_fields};

fn script(type_name: &str, value: &str) -> Value {
    json!({"typeName": type_name, "expression": {"type": "JavaScript", "value": value}})
}

/// Asks for a task, and has its result as an output.
fn weighs() -> Value {
    json!({"definitionId": "weighs", "variables": [{"id": "w", "name": "Weight", "typeName": "Object"}],
    "outputs": [{"name": "Weight", "type": "Object"}],
    "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
        {"type": "Elsa.RunTask", "id": "task", "taskName": literal("Weigh"),
         "payload": script("ObjectDictionary", "({parcel: getInput('n')})"),
         "result": {"typeName": "Object", "memoryReference": {"id": "w"}}},
        {"type": "Elsa.SetOutput", "id": "out", "outputName": literal("Weight"), "outputValue": script("Object", "getWeight()")}
    ]}})
}

struct Pair {
    database: TestDatabase,
    _nodes: [Node; 2],
    one: Http,
    two: Http,
}

impl Pair {
    async fn start() -> Self {
        let database = TestDatabase::create().await;
        let nodes = ["one", "two"].map(|name| Node::start_with(&database, name, &["--check-in", "200ms"], ""));
        let [one, two] = [0, 1].map(|at: usize| nodes[at].http.clone().unwrap());
        one.publish(&weighs()).await;
        Self {
            database,
            _nodes: nodes,
            one,
            two,
        }
    }

    /// Starts an instance that asks for a task; returns the id of the instance.
    async fn asks(&self, n: i64, body: &Value) -> String {
        let mut start = body.clone();
        start["input"] = json!({"n": n});
        let state = self.one.execute("weighs", &start).await;
        assert_fields!(state["workflowState"], {"subStatus": "Suspended"});
        state["workflowState"]["id"].as_str().unwrap().to_owned()
    }

    async fn tasks(&self) -> Vec<Value> {
        let listed = self.two.get("tasks").await.expect(200);
        assert_eq!(listed["nextCursor"], json!(null));
        listed["items"].as_array().unwrap().clone()
    }
}

fn complete(id: &str) -> String {
    format!("tasks/{id}/complete")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_listed_until_its_result_is_committed() {
    let pair = Pair::start().await;
    let instance = pair.asks(7, &json!({"correlationId": "c7"})).await;
    let tasks = pair.tasks().await;
    assert_eq!(tasks.len(), 1);
    assert_fields!(tasks[0], {"taskName": "Weigh", "payload": {"parcel": 7}, "workflowInstanceId": instance,
        "correlationId": "c7", "activityId": "task"});
    let id = tasks[0]["taskId"].as_str().unwrap();
    let answer = pair.two.post(&complete(id), &json!({"result": {"grams": 12}})).await;
    assert_eq!((answer.status, answer.body), (200, Value::Null));
    // At once: the response came with the commit.
    let detail = pair
        .one
        .get(&format!("workflow-instances/{instance}"))
        .await
        .expect(200);
    assert_fields!(detail, {"subStatus": "Finished"});
    assert_eq!(detail["workflowState"]["output"]["Weight"], json!({"grams": 12}));
    assert_eq!(pair.tasks().await, [Value::Null; 0]);
    assert_invariants(&pair.database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_takes_one_result() {
    let pair = Pair::start().await;
    let instance = pair.asks(1, &json!({})).await;
    let id = pair.tasks().await[0]["taskId"].as_str().unwrap().to_owned();
    let path = complete(&id);
    let report = |http: &Http, n: i64| {
        let (http, path) = (http.clone(), path.clone());
        async move { http.post(&path, &json!({"result": n})).await }
    };
    let answers =
        futures_util::future::join_all((0..12).map(|n| report(if n % 2 == 0 { &pair.one } else { &pair.two }, n)))
            .await;
    let taken: Vec<usize> = (0..answers.len()).filter(|n| answers[*n].status == 200).collect();
    assert_eq!(taken.len(), 1, "{answers:?}");
    for answer in answers.iter().filter(|answer| answer.status != 200) {
        answer.assert_refused(409, "task-completed");
    }
    let detail = pair
        .one
        .get(&format!("workflow-instances/{instance}"))
        .await
        .expect(200);
    assert_eq!(detail["workflowState"]["output"]["Weight"], json!(taken[0]));
    report(&pair.two, 99).await.assert_refused(409, "task-completed");
    assert_invariants(&pair.database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repetition_under_its_key_has_the_same_outcome() {
    let pair = Pair::start().await;
    pair.asks(1, &json!({})).await;
    let id = pair.tasks().await[0]["taskId"].as_str().unwrap().to_owned();
    let key = [("idempotency-key", "k1")];
    for http in [&pair.one, &pair.two, &pair.one] {
        let answer = http
            .send(Method::POST, &complete(&id), &key, Some(&json!({"result": 5})))
            .await;
        assert_eq!(answer.unwrap().status, 200);
    }
    let other = pair
        .one
        .send(Method::POST, &complete(&id), &key, Some(&json!({"result": 6})))
        .await;
    other.unwrap().assert_refused(422, "idempotency-key-reused");
    assert_invariants(&pair.database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_task_is_not_found_and_changes_nothing() {
    let pair = Pair::start().await;
    let instance = pair.asks(1, &json!({})).await;
    for id in [
        "none",
        "none:1",
        &format!("{instance}:999"),
        &format!("{instance}:x"),
        &instance,
    ] {
        let answer = pair.one.post(&complete(id), &json!({"result": 1})).await;
        answer.assert_refused(404, "task-not-found");
    }
    // An execution of another activity waits for no result.
    pair.one
        .post(&complete(&format!("{instance}:1")), &json!({}))
        .await
        .assert_refused(409, "task-completed");
    let id = pair.tasks().await[0]["taskId"].as_str().unwrap().to_owned();
    pair.one
        .post(&complete(&id), &json!([1]))
        .await
        .assert_refused(400, "invalid-body");
    // A cancelled instance asks for nothing.
    let cancel = json!({"ids": [instance]});
    pair.one
        .post("bulk-actions/cancel/workflow-instances", &cancel)
        .await
        .expect(200);
    pair.one.instance_becomes(&instance, "Cancelled").await;
    assert_eq!(pair.tasks().await, [Value::Null; 0]);
    pair.one
        .post(&complete(&id), &json!({}))
        .await
        .assert_refused(409, "task-completed");
    assert_invariants(&pair.database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_are_paged_in_the_order_in_which_they_began() {
    let pair = Pair::start().await;
    for n in 0..25 {
        pair.asks(n, &json!({})).await;
    }
    let mut seen = Vec::new();
    let mut path = "tasks?pageSize=10".to_owned();
    loop {
        let page = pair.two.get(&path).await.expect(200);
        let items = page["items"].as_array().unwrap();
        seen.extend(items.iter().map(|task| task["payload"]["parcel"].as_i64().unwrap()));
        let Some(cursor) = page["nextCursor"].as_str() else {
            break;
        };
        assert_eq!(items.len(), 10);
        path = format!("tasks?pageSize=10&cursor={cursor}");
    }
    assert_eq!(seen, (0..25).collect::<Vec<_>>());
    for bad in ["tasks?pageSize=0", "tasks?pageSize=1001", "tasks?cursor=%25"] {
        pair.two.get(bad).await.assert_refused(400, "invalid-field");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_cluster_takes_no_result() {
    let pair = Pair::start().await;
    pair.asks(1, &json!({})).await;
    let id = pair.tasks().await[0]["taskId"].as_str().unwrap().to_owned();
    pair.one
        .post("admin/workflow-runtime/pause", &json!({}))
        .await
        .expect(200);
    pair.two
        .post(&complete(&id), &json!({"result": 1}))
        .await
        .assert_refused(503, "runtime-paused");
    assert_eq!(pair.tasks().await.len(), 1, "it is listed");
    pair.one
        .post("admin/workflow-runtime/resume", &json!({}))
        .await
        .expect(200);
    assert_eq!(pair.two.post(&complete(&id), &json!({"result": 1})).await.status, 200);
    assert_invariants(&pair.database).await;
}
