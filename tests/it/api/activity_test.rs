//! Tests of single activities: what they answer, and that nothing is kept of them.

use serde_json::{Value, json};

use crate::support::assert_fields;
use crate::support::single_node::{SingleNode, literal, waits_for};

fn script(text: &str) -> Value {
    json!({"typeName": "String", "expression": {"type": "JavaScript", "value": text}})
}

fn line(id: &str, text: Value) -> Value {
    json!({"id": id, "type": "Elsa.WriteLine", "text": text})
}

#[tokio::test]
async fn an_activity_is_run_alone_and_nothing_is_kept() {
    let node = SingleNode::with_key(&["--activity-timeout", "20s"]).await;
    let http = &node.http;
    let inner = json!({"id": "Inner", "type": "Elsa.Sequence",
    "variables": [{"id": "v3", "name": "Local", "typeName": "String", "value": "local"}],
    "activities": [
        line("Values", script("`${getCounter()} ${getGreeting()} ${getLocal()} ${getInput('N')}`")),
        line("Next", literal("next line")),
    ]});
    let children = json!([
        inner,
        {"id": "If", "type": "Elsa.If", "condition": {"typeName": "Boolean", "expression": {"type": "Literal", "value": "true"}},
            "then": line("Then", literal("then line"))},
        {"id": "Delay", "type": "Elsa.Delay", "timeSpan": literal("01:00:00")},
        waits_for("go"),
        line("Throws", script("null.x")),
        line("Spins", script("for (;;) {}")),
        {"id": "Unknown", "type": "Mine.Missing"},
        {"id": "Finish", "type": "Elsa.Finish"},
        {"id": "Responds", "type": "Elsa.WriteHttpResponse", "content": literal("answer")},
        {"id": "Endpoint", "type": "Elsa.HttpEndpoint", "path": literal("a/{b}")},
    ]);
    let model = json!({"definitionId": "d", "root": {"id": "Flow", "type": "Elsa.Sequence", "activities": children},
        "inputs": [{"name": "N", "type": "Int32", "defaultValue": 7}],
        "variables": [
            {"id": "v1", "name": "Counter", "typeName": "Int32", "value": "1"},
            {"id": "v2", "name": "Greeting", "typeName": "String", "value": "hello"},
        ],
        "customProperties": {"VariableTestValues": {"v1": "41", "none": 1}}});
    let saved = http
        .post("workflow-definitions", &json!({"model": model}))
        .await
        .expect(200);
    let version = saved["workflowDefinition"]["id"].clone();
    let test = async |handle: Value| {
        let body = json!({"workflowDefinitionHandle": {"definitionVersionId": version}, "activityHandle": handle});
        http.post("tests/activities", &body).await.expect(200)
    };

    let values = test(json!({"activityNodeId": "Workflow1:Flow:Inner:Values"})).await;
    assert_fields!(values, {"status": "Completed", "payload": {"Outcomes": ["Done"]}, "exception": null, "outputs": {}});
    let text = values["activityState"]["Text"].as_str().unwrap();
    assert!(text.starts_with("41 hello local"), "{values}");
    let both = test(json!({"activityId": "If"})).await;
    assert_fields!(both, {"status": "Completed"});
    for (id, status) in [
        ("Delay", "Running"),
        ("e", "Running"),
        ("Finish", "Completed"),
        ("Responds", "Completed"),
        ("Endpoint", "Running"),
        ("Inner", "Completed"),
    ] {
        assert_fields!(test(json!({"activityId": id})).await, {"status": status, "exception": null});
    }
    for (id, code) in [
        ("Throws", "script-error"),
        ("Spins", "script-timeout"),
        ("Unknown", "unknown-activity-type"),
    ] {
        let faulted = test(json!({"activityId": id})).await;
        assert_fields!(faulted, {"status": "Faulted", "payload": null});
        assert_eq!(faulted["exception"]["code"], code, "{faulted}");
    }
    let by_definition = json!({"workflowDefinitionHandle": {"definitionId": "d", "versionOptions": "Latest"},
        "activityHandle": {"activityId": "Next"}});
    let next = http.post("tests/activities", &by_definition).await.expect(200);
    assert_eq!(next["activityState"], json!({"Text": "next line"}));

    // Not even an event finds what a test would have waited for.
    let instances = http.post("workflow-instances", &json!({"page": 0})).await.expect(200);
    assert_eq!(instances["totalCount"], 0);
    let queue = http.get("cluster/queue").await.expect(200);
    assert_eq!(queue["totalCount"], 0, "{queue}");
    node.assert_invariants();
}

#[tokio::test]
async fn what_names_no_activity_is_refused() {
    let node = SingleNode::with_key(&[]).await;
    let http = &node.http;
    node.publish("d", line("Line", literal("a"))).await;
    let draft = json!({"model": {}, "publish": false});
    let path = "workflow-definitions/empty";
    http.put(path, &draft).await.expect(200);
    let known = json!({"definitionId": "d"});
    for (definition, activity, status, code) in [
        (
            json!({"definitionId": "none"}),
            json!({"activityId": "Line"}),
            404,
            "definition-not-found",
        ),
        (
            json!({"definitionVersionId": "none"}),
            json!({"activityId": "Line"}),
            404,
            "definition-not-found",
        ),
        (known.clone(), json!({"activityId": "None"}), 404, "activity-not-found"),
        (
            known.clone(),
            json!({"activityNodeId": "Line"}),
            404,
            "activity-not-found",
        ),
        (
            known.clone(),
            json!({"activityNodeId": "Workflow1"}),
            404,
            "activity-not-found",
        ),
        (
            json!({"definitionId": "empty"}),
            json!({"activityId": "Line"}),
            400,
            "missing-root",
        ),
        (json!({}), json!({"activityId": "Line"}), 400, "missing-field"),
        (known.clone(), json!({"activityInstanceId": "x"}), 400, "missing-field"),
        (json!(null), json!({"activityId": "Line"}), 400, "missing-field"),
        (known.clone(), json!(null), 400, "missing-field"),
        (json!("d"), json!({"activityId": "Line"}), 400, "invalid-field"),
        (known.clone(), json!(["Line"]), 400, "invalid-field"),
        (known.clone(), json!({"activityId": 1}), 400, "invalid-field"),
        (
            json!({"definitionId": "d", "versionOptions": "new"}),
            json!({"activityId": "Line"}),
            400,
            "invalid-field",
        ),
    ] {
        let body = json!({"workflowDefinitionHandle": definition, "activityHandle": activity});
        http.post("tests/activities", &body).await.assert_refused(status, code);
    }
    http.post("tests/activities", &json!([]))
        .await
        .assert_refused(400, "invalid-body");
    // A paused cluster runs no activity.
    http.post("admin/workflow-runtime/pause", &json!({})).await.expect(200);
    let body = json!({"workflowDefinitionHandle": known, "activityHandle": {"activityId": "Line"}});
    http.post("tests/activities", &body)
        .await
        .assert_refused(503, "runtime-paused");
    http.post("admin/workflow-runtime/resume", &json!({})).await.expect(200);
    http.post("tests/activities", &body).await.expect(200);
}
