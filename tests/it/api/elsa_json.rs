//! The JSON of responses is written as Elsa writes it, and enumerations and handles are read as Elsa reads them.

use chrono::DateTime;
use serde_json::{Value, json};

use crate::support::node::{Node, publish};
use crate::support::single_node::{SingleNode, literal, waits_for};
use crate::support::{Gate, Http, TestDatabase, assert_fields};

fn write_line(id: &str) -> Value {
    json!({"id": id, "type": "Elsa.WriteLine", "text": literal(id)})
}

/// A flowchart that goes from `A` to `B`.
fn flow(id: &str) -> Value {
    json!({"definitionId": id, "name": id, "toolVersion": "3.8.0.0", "mine": {"kept": null},
        "inputs": [{"name": "data", "type": "Object"}],
        "root": {"id": "Flow", "type": "Elsa.Flowchart", "activities": [write_line("A"), write_line("B")],
            "connections": [{"source": {"activity": "A", "port": "Done"}, "target": {"activity": "B", "port": "In"}}]}})
}

/// What holds values of users and of activities.
const OF_USERS: [&str; 6] = [
    "activityState",
    "outputs",
    "payload",
    "properties",
    "input",
    "uiSpecifications",
];

/// The places of nulls and of times without an offset in digits.
fn foreign(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Null => found.push(at.to_owned()),
        Value::String(text) if text.ends_with('Z') && DateTime::parse_from_rfc3339(text).is_ok() => {
            found.push(format!("{at}: {text}"));
        }
        Value::Array(items) => items.iter().for_each(|item| foreign(item, &format!("{at}[]"), found)),
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| !OF_USERS.contains(&name.as_str()))
            .for_each(|(name, field)| foreign(field, &format!("{at}.{name}"), found)),
        _ => {}
    }
}

async fn activities(http: &Http, instance: &str) -> Vec<Value> {
    let journal = http
        .get(&format!("workflow-instances/{instance}/journal"))
        .await
        .expect(200);
    let items = journal["items"].as_array().unwrap().iter();
    let started = items.filter(|entry| entry["eventName"] == "Started");
    started.map(|entry| entry["activityId"].clone()).collect()
}

#[tokio::test]
async fn what_has_no_value_is_left_out_and_times_have_an_offset() {
    let node = SingleNode::start(&[]).await;
    let http = &node.http;
    http.publish(&flow("flow")).await;
    http.publish(&json!({"definitionId": "waits", "root": waits_for("Go")}))
        .await;
    let later = "2090-01-01T00:00:00+00:00";
    let timer =
        json!({"id": "t", "type": "Elsa.Timer", "canStartWorkflow": true, "interval": "01:00:00", "startAt": later});
    http.publish(&json!({"definitionId": "timed", "root": timer})).await;
    let timed = http.get("cluster/schedules?definitionId=timed").await.expect(200);
    assert_eq!(timed["items"][0]["schedule"]["startAt"], later);
    http.dispatch("waits", &json!({"instanceId": "w"})).await;
    http.instance_becomes("w", "Suspended").await;
    http.dispatch("flow", &json!({"instanceId": "f"})).await;
    http.instance_becomes("f", "Finished").await;
    let mut found = Vec::new();
    for path in [
        "workflow-definitions",
        "workflow-instances",
        "workflow-instances/w",
        "workflow-instances/f",
        "workflow-instances/f/journal",
        "workflow-instances/f/journal/A",
        "workflow-instances/w/execution-state",
        "activity-executions/list?workflowInstanceId=w",
        "activity-execution-summaries/list?workflowInstanceId=f",
        "descriptors/activities",
        "cluster/nodes",
        "cluster/queue",
        "cluster/locks",
        "cluster/schedules",
        "admin/workflow-runtime/status",
        "bookmark-queue/dead-letters",
        "tasks",
    ] {
        let body = http.get(path).await.expect(200);
        foreign(&body, path, &mut found);
    }
    assert!(found.is_empty(), "{found:#?}");

    // What users wrote stays as they wrote it.
    let definition = http.get("workflow-definitions/by-definition-id/flow").await.expect(200);
    assert_eq!(definition["mine"], json!({"kept": null}));
    assert!(definition.get("description").is_none(), "{definition}");
    let given = json!({"data": {"none": null, "at": "2026-01-01T00:00:00Z"}});
    let ran = http.execute("flow", &json!({ "input": given })).await;
    assert_eq!(ran["workflowState"]["input"], given);
    assert!(ran["workflowState"].get("correlationId").is_none(), "{ran}");

    let listed = http.get("workflow-definitions?definitionIds=flow").await.expect(200);
    assert_eq!(listed["items"][0]["toolVersion"], "3.8.0.0");
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_says_whether_it_executes_and_whether_it_is_the_systems() {
    let database = TestDatabase::create().await;
    let gate = Gate::new();
    let node = Node::start_with(&database, "one", &[], &gate.stalls("burst.before"));
    let http = node.http.clone().unwrap();
    publish(&http).await;
    http.dispatch("walk", &json!({"instanceId": "i", "input": {"n": 1}}))
        .await;
    gate.reached().await;
    let running = http.get("workflow-instances/i").await.expect(200);
    assert_fields!(running, {"isExecuting": true, "isSystem": false});
    assert_eq!(running["workflowState"]["isExecuting"], true);
    gate.open();
    // Kept until the instance waits for it.
    http.trigger("go-1", &json!({})).await;
    http.instance_becomes("i", "Finished").await;
    assert!(system(&http).await.is_empty());
    let client = database.connect().await;
    let mark = "UPDATE mainspring.definition SET is_system = true";
    assert_eq!(client.execute(mark, &[]).await.unwrap(), 1);
    let finished = http.get("workflow-instances/i").await.expect(200);
    assert_fields!(finished, {"isExecuting": false, "isSystem": true});
    assert_fields!(finished["workflowState"], {"isExecuting": false, "isSystem": true});
    assert_eq!(system(&http).await, ["i"]);
    let with_false = http.post("workflow-instances", &json!({"isSystem": false})).await;
    assert_eq!(with_false.expect(200)["items"][0]["id"], "i", "false has no effect");
    // The state after a burst does not say it.
    let ran = http.execute("walk", &json!({"input": {"n": 1}})).await;
    assert_eq!(ran["workflowState"]["isExecuting"], false);
    assert!(ran["workflowState"].get("isSystem").is_none(), "{ran}");
}

/// The instances of versions that belong to the system.
async fn system(http: &Http) -> Vec<Value> {
    let listed = http
        .post("workflow-instances", &json!({"isSystem": true}))
        .await
        .expect(200);
    let items = listed["items"].as_array().unwrap().iter();
    items.map(|item| item["id"].clone()).collect()
}

#[tokio::test]
async fn enumerations_are_names_or_numbers() {
    let node = SingleNode::start(&[]).await;
    let http = &node.http;
    http.publish(&flow("flow")).await;
    http.publish(&json!({"definitionId": "waits", "root": waits_for("Go")}))
        .await;
    http.execute("flow", &json!({})).await;
    http.execute("waits", &json!({})).await;
    for (query, body, count) in [
        ("status=1", json!({"status": 1, "page": 0}), 1),
        ("statuses=0&statuses=Finished", json!({"statuses": [0, "1"]}), 2),
        (
            "subStatus=2&orderBy=3&orderDirection=1",
            json!({"subStatus": 2, "orderBy": 3, "orderDirection": 1}),
            1,
        ),
        ("subStatus=Interrupted", json!({"subStatus": "Interrupted"}), 0),
        ("subStatuses=6&subStatuses=3", json!({"subStatuses": [6, 3]}), 1),
    ] {
        let by_query = http.get(&format!("workflow-instances?{query}")).await.expect(200);
        assert_eq!(by_query["totalCount"], count, "{query}");
        let by_body = http.post("workflow-instances", &body).await.expect(200);
        assert_eq!(by_body["totalCount"], count, "{body}");
    }
    for (query, field) in [
        ("status=2", "status"),
        ("subStatuses=7", "subStatuses"),
        ("orderBy=4", "orderBy"),
    ] {
        let refused = http.get(&format!("workflow-instances?{query}")).await;
        refused.assert_refused(400, "invalid-field");
        assert!(refused.body["errors"][field].is_array(), "{}", refused.body);
    }
    let definitions = http
        .get("workflow-definitions?orderBy=0&orderDirection=1")
        .await
        .expect(200);
    assert_eq!(definitions["items"][0]["definitionId"], "waits");
    http.trigger("Go", &json!({"workflowExecutionMode": 1})).await;
    node.assert_invariants();
}

#[tokio::test]
async fn a_start_begins_at_the_activity_of_a_handle() {
    let node = SingleNode::start(&[]).await;
    let http = &node.http;
    http.publish(&flow("flow")).await;
    for handle in [
        json!({"activityId": "B"}),
        json!({"activityNodeId": "Workflow1:Flow:B"}),
    ] {
        let ran = http.execute("flow", &json!({ "activityHandle": handle })).await;
        let id = ran["workflowState"]["id"].as_str().unwrap();
        let started = activities(http, id).await;
        assert!(
            started.contains(&json!("B")) && !started.contains(&json!("A")),
            "{started:?}"
        );
    }
    let start = json!({"instanceId": "d", "activityHandle": {"activityId": "B"}});
    http.dispatch("flow", &start).await;
    http.instance_becomes("d", "Finished").await;
    assert!(!activities(http, "d").await.contains(&json!("A")));
    for (handle, code, field) in [
        (
            json!({"activityNodeId": "Workflow1:Elsewhere:B"}),
            "invalid-input",
            "activityHandle",
        ),
        (json!({"activityId": "C"}), "invalid-input", "triggerActivityId"),
        (json!({"activityInstanceId": "d-1"}), "not-supported", "activityHandle"),
        (json!({"activityHash": "AB"}), "not-supported", "activityHandle"),
    ] {
        for route in ["execute", "dispatch"] {
            let start = json!({ "activityHandle": handle });
            let refused = http.post(&format!("workflow-definitions/flow/{route}"), &start).await;
            refused.assert_refused(400, code);
            assert!(refused.body["errors"][field].is_array(), "{}", refused.body);
        }
    }
    let all = http.get("workflow-instances").await.expect(200);
    assert_eq!(all["totalCount"], 3);
    let both = json!({"triggerActivityId": "A", "activityHandle": {"activityNodeId": "Workflow1:Flow:B"}});
    let refused = http.post("workflow-definitions/flow/execute", &both).await;
    refused.assert_refused(400, "invalid-input");
    node.assert_invariants();
}

#[tokio::test]
async fn a_start_begins_at_a_place_whose_id_has_colons() {
    let node = SingleNode::start(&[]).await;
    let http = &node.http;
    http.publish(
        &json!({"definitionId": "colons", "root": {"id": "Flow", "type": "Elsa.Flowchart",
        "activities": [write_line("B"), write_line("A:B")], "connections": []}}),
    )
    .await;
    let start = json!({"activityHandle": {"activityNodeId": "Workflow1:Flow:A:B"}});
    let ran = http.execute("colons", &start).await;
    let started = activities(http, ran["workflowState"]["id"].as_str().unwrap()).await;
    assert!(
        started.contains(&json!("A:B")) && !started.contains(&json!("B")),
        "{started:?}"
    );
    let listed = http
        .post(
            "workflow-instances",
            &json!({"definitionId": "colons", "activityHandle": {"activityId": "B"}}),
        )
        .await
        .expect(200);
    let id = listed["workflowInstanceId"].as_str().unwrap().to_owned();
    http.instance_becomes(&id, "Finished").await;
    assert!(!activities(http, &id).await.contains(&json!("A:B")));
    node.assert_invariants();
}
