//! The execution state and the variables of an instance.

use serde_json::{Value, json};

use crate::support::single_node::{SingleNode, waits_for};
use crate::support::{Http, assert_fields};

fn model() -> Value {
    json!({"definitionId": "vars", "root": waits_for("Go"),
        "variables": [
            {"id": "v1", "name": "N", "typeName": "Int32", "value": 1},
            {"id": "v2", "name": "Tags", "typeName": "String", "isArray": true, "value": ["x"]},
            {"id": "v3", "name": "Any", "typeName": "Object"}]})
}

async fn start(http: &Http) -> String {
    http.publish(&model()).await;
    let run = http.execute("vars", &json!({})).await;
    run["workflowState"]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_execution_state_is_short_and_follows_the_instance() {
    let node = SingleNode::start(&[]).await;
    let http = &node.http;
    let id = start(http).await;
    let path = format!("workflow-instances/{id}/execution-state");
    let state = http.get(&path).await.expect(200);
    assert_fields!(state, {"status": "Running", "subStatus": "Suspended"});
    assert_eq!(state.as_object().unwrap().len(), 3);
    let detail = http.get(&format!("workflow-instances/{id}")).await.expect(200);
    assert_eq!(state["updatedAt"], detail["updatedAt"]);
    http.trigger("Go", &json!({})).await;
    http.instance_becomes(&id, "Finished").await;
    let ended = http.get(&path).await.expect(200);
    assert_fields!(ended, {"status": "Finished", "subStatus": "Finished"});
    assert_ne!(ended["updatedAt"], state["updatedAt"]);
    http.get("workflow-instances/none/execution-state")
        .await
        .assert_refused(404, "instance-not-found");
    node.assert_invariants();
}

#[tokio::test]
async fn variables_are_listed_and_set_by_their_ids() {
    let node = SingleNode::start(&[]).await;
    let http = &node.http;
    let id = start(http).await;
    let path = format!("workflow-instances/{id}/variables");
    let first = http.get(&path).await.expect(200);
    let expected = json!({"count": 3, "items": [
        {"id": "v1", "name": "N", "value": 1},
        {"id": "v2", "name": "Tags", "value": ["x"]},
        {"id": "v3", "name": "Any", "value": null}]});
    assert_eq!(first, expected);

    let before = http
        .get(&format!("workflow-instances/{id}/execution-state"))
        .await
        .expect(200);
    // A value is converted to the type where it fits, and null is a value.
    let body = json!({"variables": [{"id": "v1", "value": "41"}, {"Id": "v3", "Value": {"a": [1, "ü"]}},
        {"id": "v2", "value": null}]});
    let set = http.post(&path, &body).await.expect(200);
    let expected = json!({"count": 3, "items": [
        {"id": "v1", "name": "N", "value": 41},
        {"id": "v2", "name": "Tags", "value": null},
        {"id": "v3", "name": "Any", "value": {"a": [1, "ü"]}}]});
    assert_eq!(set, expected);
    assert_eq!(http.get(&path).await.expect(200), expected);
    let after = http
        .get(&format!("workflow-instances/{id}/execution-state"))
        .await
        .expect(200);
    assert_fields!(after, {"subStatus": "Suspended"});
    assert_ne!(before["updatedAt"], after["updatedAt"]);
    assert_eq!(http.post(&path, &json!({"variables": []})).await.expect(200), expected);

    // Nonsense changes nothing.
    let unknown = json!({"variables": [{"id": "v1", "value": 5}, {"id": "nope", "value": 1}]});
    let refused = http.post(&path, &unknown).await;
    refused.assert_refused(400, "unknown-variable");
    assert!(
        refused.body["errors"]["variables"].to_string().contains("nope"),
        "{}",
        refused.body
    );
    let misfit = json!({"variables": [{"id": "v2", "value": ["kept?"]}, {"id": "v1", "value": "abc"}]});
    let refused = http.post(&path, &misfit).await;
    refused.assert_refused(400, "invalid-input");
    let problem = refused.body["errors"]["variables.N"].to_string();
    assert!(problem.contains("abc") && problem.contains("Int32"), "{}", refused.body);
    for body in [
        json!({}),
        json!({"variables": 1}),
        json!({"variables": {"N": 1}}),
        json!({"variables": [1]}),
        json!({"variables": [{"value": 1}]}),
        json!({"variables": [{"id": 7, "value": 1}]}),
    ] {
        http.post(&path, &body).await.assert_refused(400, "invalid-field");
    }
    http.post(&path, &json!([])).await.assert_refused(400, "invalid-body");
    http.post(&path, &json!({"variables": [{"id": "v3", "value": "a\0b"}]}))
        .await
        .assert_refused(400, "invalid-text");
    let deep = (0..110).fold(json!(1), |inner, _| json!([inner]));
    http.post(&path, &json!({"variables": [{"id": "v3", "value": deep}]}))
        .await
        .assert_refused(400, "nesting-too-deep");
    let large = "x".repeat((1 << 20) + 1);
    http.post(&path, &json!({"variables": [{"id": "v3", "value": large}]}))
        .await
        .assert_refused(413, "value-too-large");
    let many: Vec<Value> = (0..1_001).map(|n| json!({"id": "v1", "value": n})).collect();
    http.post(&path, &json!({ "variables": many }))
        .await
        .assert_refused(400, "invalid-field");
    assert_eq!(http.get(&path).await.expect(200), expected);

    http.trigger("Go", &json!({})).await;
    http.instance_becomes(&id, "Finished").await;
    assert_eq!(http.get(&path).await.expect(200), expected);
    http.post(&path, &body).await.assert_refused(409, "instance-finished");
    for path in ["workflow-instances/none/variables", "workflow-instances/%20/variables"] {
        http.get(path).await.assert_refused(404, "instance-not-found");
        http.post(path, &body).await.assert_refused(404, "instance-not-found");
    }
    node.assert_invariants();
}

#[tokio::test]
async fn a_paused_cluster_refuses_to_set_variables() {
    let node = SingleNode::start(&[]).await;
    let http = &node.http;
    let id = start(http).await;
    let path = format!("workflow-instances/{id}/variables");
    http.post("admin/workflow-runtime/pause", &json!({})).await;
    let body = json!({"variables": [{"id": "v1", "value": 2}]});
    http.post(&path, &body).await.assert_refused(503, "runtime-paused");
    http.get(&path).await.expect(200);
    http.post("admin/workflow-runtime/resume", &json!({})).await;
    http.post(&path, &body).await.expect(200);
    node.assert_invariants();
}

#[tokio::test]
async fn a_start_that_has_not_run_yet_shows_defaults_and_is_busy() {
    // No worker: the start waits.
    let node = SingleNode::start(&["--workers", "0"]).await;
    let http = &node.http;
    http.publish(&model()).await;
    http.dispatch("vars", &json!({"instanceId": "i"})).await;
    let state = http.get("workflow-instances/i/execution-state").await.expect(200);
    assert_fields!(state, {"status": "Running", "subStatus": "Pending"});
    let listed = http.get("workflow-instances/i/variables").await.expect(200);
    assert_eq!(listed["items"][1], json!({"id": "v2", "name": "Tags", "value": ["x"]}));
    http.post(
        "workflow-instances/i/variables",
        &json!({"variables": [{"id": "v1", "value": 2}]}),
    )
    .await
    .assert_refused(409, "instance-busy");
}
