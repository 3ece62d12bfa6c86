//! Instances as files: exported from one database, imported into another one, where they continue.

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use crate::support::failpoints::IMPORT;
use crate::support::node::{Node, assert_invariants};
use crate::support::single_node::{KEY, SingleNode, literal, waits_for};
use crate::support::{Answer, Http, TIMEOUT, TestDatabase, assert_fields, wait_until};

const IMPORT_ROUTE: &str = "bulk-actions/import/workflow-instances";
const ALL_PARTS: &str = "includeBookmarks=true&includeActivityExecutionLog=true&includeWorkflowExecutionLog=true";
const JSON: &str = "application/json";

/// Waits for `Go`, and outputs the variable `N`.
fn waiting(id: &str) -> Value {
    let script = json!({"typeName": "Object", "expression": {"type": "JavaScript", "value": "'n=' + getN()"}});
    json!({"definitionId": id,
        "variables": [{"id": "v1", "name": "N", "typeName": "Int32", "value": 1}],
        "outputs": [{"name": "Out", "type": "Object"}],
        "root": {"id": "Seq", "type": "Elsa.Sequence", "activities": [
            waits_for("Go"),
            {"type": "Elsa.SetOutput", "id": "out", "outputName": literal("Out"), "outputValue": script}]}})
}

fn delays(id: &str, duration: &str) -> Value {
    let span = json!({"typeName": "TimeSpan", "expression": {"type": "Literal", "value": duration}});
    json!({"definitionId": id, "root": {"id": "Wait", "type": "Elsa.Delay", "timeSpan": span}})
}

fn singleton(mut model: Value) -> Value {
    model["options"] = json!({"activationStrategyType": "Elsa.Workflows.Runtime.ActivationValidators.SingletonStrategy, Elsa.Workflows.Runtime"});
    model
}

async fn export(http: &Http, id: &str, query: &str) -> Value {
    http.get(&format!("workflow-instances/{id}/export?{query}"))
        .await
        .expect(200)
}

/// Sends files as a form, each with its name and its media type.
async fn upload(http: &Http, files: &[(&str, &str, &[u8])]) -> Answer {
    let mut form = Vec::new();
    for (name, kind, content) in files {
        let head = format!(
            "--frontier\r\nContent-Disposition: form-data; name=\"files\"; filename=\"{name}\"\r\nContent-Type: {kind}\r\n\r\n"
        );
        form.extend_from_slice(head.as_bytes());
        form.extend_from_slice(content);
        form.extend_from_slice(b"\r\n");
    }
    form.extend_from_slice(b"--frontier--\r\n");
    let kind = [("content-type", "multipart/form-data; boundary=frontier")];
    http.upload(IMPORT_ROUTE, &kind, form).await
}

async fn import(http: &Http, file: &Value) -> Answer {
    upload(http, &[("a.json", JSON, file.to_string().as_bytes())]).await
}

async fn start(http: &Http, model: &Value, id: &str, start: Value) {
    http.publish(model).await;
    let mut start = start;
    start["instanceId"] = json!(id);
    http.dispatch(model["definitionId"].as_str().unwrap(), &start).await;
    wait_until("the instance to wait or to end", async || {
        let state = http.get(&format!("workflow-instances/{id}")).await.body;
        !matches!(state["subStatus"].as_str(), None | Some("Pending" | "Executing"))
    })
    .await;
}

/// Entries of the journal without ids and times of their rows.
async fn journal(http: &Http, id: &str) -> Vec<Value> {
    let all = http
        .get(&format!("workflow-instances/{id}/journal?take=1000"))
        .await
        .expect(200);
    let entries = all["items"].as_array().unwrap().iter();
    let kept = entries.map(|entry| {
        json!([
            entry["sequence"],
            entry["eventName"],
            entry["activityId"],
            entry["activityInstanceId"],
            entry["payload"]
        ])
    });
    kept.collect()
}

fn time(value: &Value) -> DateTime<Utc> {
    value.as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_waiting_instance_goes_on_in_another_database() {
    let (from, to) = tokio::join!(SingleNode::start(&[]), SingleNode::start(&[]));
    let id = "Order-1";
    start(
        &from.http,
        &waiting("w"),
        id,
        json!({"correlationId": "c", "name": "first"}),
    )
    .await;
    let set = json!({"variables": [{"id": "v1", "value": 7}]});
    from.http
        .post(&format!("workflow-instances/{id}/variables"), &set)
        .await
        .expect(200);

    let path = format!("workflow-instances/{id}/export?{ALL_PARTS}");
    let (status, headers, bytes) = from.http.download(&path, None).await;
    assert_eq!(status, 200);
    assert_eq!(
        headers["content-disposition"],
        "attachment; filename=workflow-instance-order-1.json"
    );
    assert_eq!(headers["content-type"], JSON);
    let file: Value = serde_json::from_slice(&bytes).unwrap();
    assert_fields!(file["workflowState"], {"id": id, "subStatus": "Suspended", "correlationId": "c"});
    assert_fields!(file["bookmarks"][0], {"activityTypeName": "Elsa.Event", "workflowInstanceId": id, "correlationId": "c"});
    assert!(file["activityExecutionRecords"].as_array().unwrap().len() >= 3);
    assert!(file["workflowExecutionLogRecords"].as_array().unwrap().len() >= 3);

    to.http.publish(&waiting("w")).await;
    let imported = upload(&to.http, &[("a.json", JSON, &bytes)]).await.expect(200);
    assert_eq!(imported, json!({"count": 1, "imported": 1}));
    let detail = to.http.get(&format!("workflow-instances/{id}")).await.expect(200);
    assert_fields!(detail, {"status": "Running", "subStatus": "Suspended", "correlationId": "c", "name": "first", "version": 1});
    let listed = to.http.get("workflow-instances").await.expect(200);
    assert_eq!(listed["totalCount"], 1);
    assert_eq!(journal(&from.http, id).await, journal(&to.http, id).await);
    let executions = format!("activity-executions/list?WorkflowInstanceId={id}");
    let (old, new) = (
        from.http.get(&executions).await.expect(200),
        to.http.get(&executions).await.expect(200),
    );
    assert_eq!(old["count"], new["count"]);
    for (old, new) in old["items"]
        .as_array()
        .unwrap()
        .iter()
        .zip(new["items"].as_array().unwrap())
    {
        for field in [
            "id",
            "status",
            "activityState",
            "outputs",
            "hasBookmarks",
            "schedulingActivityExecutionId",
        ] {
            assert_eq!(old[field], new[field], "{field}");
        }
        let apart = time(&old["startedAt"]) - time(&new["startedAt"]);
        assert!(apart.num_seconds().abs() < 30, "{apart}");
    }

    // It exists now, and stays as it is.
    let again = import(&to.http, &file).await;
    again.assert_refused(409, "instance-exists");
    to.http.trigger("Go", &json!({"correlationId": "other"})).await;
    to.http.trigger("Go", &json!({"correlationId": "c"})).await;
    to.http.instance_becomes(id, "Finished").await;
    let detail = to.http.get(&format!("workflow-instances/{id}")).await.expect(200);
    assert_eq!(detail["workflowState"]["output"]["Out"], "n=7");
    let ended = journal(&to.http, id).await;
    assert!(ended.len() > journal(&from.http, id).await.len());
    to.assert_invariants();

    // An instance that has ended is imported, too, with or without its history.
    let ended = export(&to.http, id, ALL_PARTS).await;
    to.http.delete(&format!("workflow-instances/{id}")).await.expect(204);
    import(&to.http, &ended).await.expect(200);
    let detail = to.http.get(&format!("workflow-instances/{id}")).await.expect(200);
    assert_fields!(detail, {"status": "Finished", "subStatus": "Finished"});
    assert_eq!(detail["workflowState"]["output"]["Out"], "n=7");
    to.http.delete(&format!("workflow-instances/{id}")).await.expect(204);
    let mut plain = ended;
    plain["mainspring"]["history"] = Value::Null;
    import(&to.http, &plain).await.expect(200);
    assert_eq!(journal(&to.http, id).await, Vec::<Value>::new());
    to.assert_invariants();
}

#[tokio::test]
async fn fractions_are_the_same_after_a_wait_and_elsewhere() {
    let (from, to) = tokio::join!(SingleNode::start(&[]), SingleNode::start(&[]));
    let script = |value: &str| json!({"typeName": "Object", "expression": {"type": "JavaScript", "value": value}});
    let set = json!({"id": "set", "type": "Elsa.SetVariable", "variable": {"id": "v", "name": "V"},
        "value": script("Array.from({length: 400}, (_, i) => i * 0.1 * 1.4)")});
    let same = "getV().filter((number, i) => number !== i * 0.1 * 1.4).length";
    let out = |id: &str, name: &str| json!({"id": id, "type": "Elsa.SetOutput", "outputName": literal(name), "outputValue": script(same)});
    let span = json!({"typeName": "TimeSpan", "expression": {"type": "Literal", "value": "00:00:00.1"}});
    let model = json!({"definitionId": "f",
        "variables": [{"id": "v", "name": "V", "typeName": "Object"}],
        "outputs": [{"name": "After", "type": "Object"}, {"name": "Later", "type": "Object"}],
        "root": {"id": "Seq", "type": "Elsa.Sequence", "activities": [
            set,
            {"id": "delay", "type": "Elsa.Delay", "timeSpan": span},
            out("after", "After"),
            {"id": "task", "type": "Elsa.RunTask", "taskName": literal("T"), "payload": script("({numbers: getV()})")},
            out("later", "Later")]}});
    from.http.publish(&model).await;
    from.http.dispatch("f", &json!({"instanceId": "i"})).await;
    wait_until("the task", async || {
        let tasks = from.http.get("workflow-instances/i").await.body;
        tasks["workflowState"]["bookmarks"][0]["name"] == "Elsa.RunTask"
    })
    .await;
    let file = export(&from.http, "i", ALL_PARTS).await;
    to.http.publish(&model).await;
    import(&to.http, &file).await.expect(200);
    for node in [&from, &to] {
        node.http
            .post("workflow-instances/i/resume", &json!({}))
            .await
            .expect(200);
        node.http.instance_becomes("i", "Finished").await;
        let ended = node.http.get("workflow-instances/i").await.expect(200);
        assert_eq!(ended["workflowState"]["output"], json!({"After": 0, "Later": 0}));
        node.assert_invariants();
    }
}

#[tokio::test]
async fn a_timer_is_due_when_it_was() {
    let (from, to) = tokio::join!(SingleNode::start(&[]), SingleNode::start(&[]));
    start(&from.http, &delays("long", "01:00:00"), "a", json!({})).await;
    start(&from.http, &delays("short", "00:00:02"), "b", json!({})).await;
    let (long, short) = (export(&from.http, "a", "").await, export(&from.http, "b", "").await);
    assert!(long.get("bookmarks").is_none() && long["mainspring"]["history"].is_null());
    to.http.publish(&delays("long", "01:00:00")).await;
    to.http.publish(&delays("short", "00:00:02")).await;
    let files = [long.to_string(), short.to_string()];
    let uploaded = [
        ("a.json", JSON, files[0].as_bytes()),
        ("b.json", "text/plain", files[1].as_bytes()),
    ];
    assert_eq!(upload(&to.http, &uploaded).await.expect(200)["count"], 2);
    let due = "SELECT due FROM mainspring.timer WHERE instance_id = 'a'";
    let due_in = async |node: &SingleNode| -> DateTime<Utc> {
        let client = node.database.connect().await;
        client.query_one(due, &[]).await.unwrap().get(0)
    };
    assert_eq!(due_in(&from).await, due_in(&to).await);
    to.http.instance_becomes("b", "Finished").await;
    to.assert_invariants();
}

#[tokio::test]
async fn an_event_that_came_before_the_import_is_met() {
    let (from, to) = tokio::join!(SingleNode::start(&[]), SingleNode::start(&[]));
    start(&from.http, &waiting("w"), "i", json!({})).await;
    let file = export(&from.http, "i", "").await;
    to.http.publish(&waiting("w")).await;
    to.http.trigger("Go", &json!({})).await;
    import(&to.http, &file).await.expect(200);
    to.http.instance_becomes("i", "Finished").await;
    to.assert_invariants();
}

#[tokio::test]
async fn several_instances_travel_in_an_archive() {
    let (from, to) = tokio::join!(SingleNode::start(&[]), SingleNode::start(&[]));
    let route = "bulk-actions/export/workflow-instances";
    for id in ["a", "A", "b"] {
        start(&from.http, &waiting("w"), id, json!({})).await;
    }
    let all = json!({"ids": ["a", "A", "b", "b", "none"], "includeWorkflowExecutionLog": true});
    let (status, headers, zip) = from.http.download(route, Some(&all)).await;
    assert_eq!(status, 200);
    assert_eq!(headers["content-type"], "application/zip");
    assert_eq!(
        headers["content-disposition"],
        "attachment; filename=workflow-instances.zip"
    );
    let one = from.http.post(route, &json!({"ids": ["b"]})).await;
    assert!(one.header("content-disposition").contains("workflow-instance-b.json"));
    assert_eq!(one.expect(200)["workflowState"]["id"], "b");
    from.http.post(route, &json!({"ids": ["x", "y"]})).await.expect(204);
    from.http
        .post(route, &json!({"ids": ["x"]}))
        .await
        .assert_refused(404, "instance-not-found");
    from.http
        .post(route, &json!({}))
        .await
        .assert_refused(400, "missing-field");
    from.http
        .post(route, &json!({"ids": "a"}))
        .await
        .assert_refused(400, "invalid-field");
    let many: Vec<String> = (0..101).map(|n| n.to_string()).collect();
    from.http
        .post(route, &json!({ "ids": many }))
        .await
        .assert_refused(400, "invalid-field");
    from.http
        .get("workflow-instances/a/export?includeBookmarks=perhaps")
        .await
        .assert_refused(400, "invalid-field");
    from.http
        .get("workflow-instances/none/export")
        .await
        .assert_refused(404, "instance-not-found");

    to.http.publish(&waiting("w")).await;
    let imported = upload(&to.http, &[("x.zip", "application/zip", &zip)]).await;
    assert_eq!(imported.expect(200)["count"], 3);
    let cut = &zip[..zip.len() - 9];
    upload(&to.http, &[("x.zip", "application/zip", cut)])
        .await
        .assert_refused(400, "invalid-file");
    to.http.trigger("Go", &json!({})).await;
    for id in ["a", "A", "b"] {
        to.http.instance_becomes(id, "Finished").await;
    }
    to.assert_invariants();
}

#[tokio::test]
async fn what_cannot_be_continued_is_refused_and_changes_nothing() {
    let node = SingleNode::start(&[]).await;
    let http = &node.http;
    start(http, &waiting("w"), "i", json!({"correlationId": "c"})).await;
    start(http, &delays("d", "01:00:00"), "t", json!({})).await;
    let (good, timed) = (export(http, "i", ALL_PARTS).await, export(http, "t", "").await);
    import(http, &good).await.assert_refused(409, "instance-exists");
    for id in ["i", "t"] {
        http.delete(&format!("workflow-instances/{id}")).await.expect(204);
    }

    let changed = |file: &Value, path: &str, value: Value| {
        let mut file = file.clone();
        *file.pointer_mut(path).unwrap() = value;
        file
    };
    let state = "/mainspring/state";
    let at = |field: &str| format!("{state}{field}");
    let mut elsas = good.clone();
    elsas.as_object_mut().unwrap().remove("mainspring");
    let refused = [
        elsas,
        json!([1]),
        json!({}),
        json!({"mainspring": null}),
        json!({"mainspring": {"format": 1}}),
        changed(&good, "/mainspring/format", json!(2)),
        changed(&good, &at("/format"), json!(99)),
        changed(&good, &at(""), json!({})),
        changed(&good, &at("/subStatus"), json!("Executing")),
        changed(&good, &at("/status"), json!("Finished")),
        changed(&good, &at("/bookmarks"), json!([])),
        changed(&good, &at("/bookmarks/0/hash"), json!("00".repeat(32))),
        changed(&good, &at("/bookmarks/0/payload"), json!({"eventName": "Other"})),
        changed(&good, &at("/bookmarks/0/nodeId"), json!("Workflow1:Seq:nope")),
        changed(&good, &at("/bookmarks/0/activityExecutionId"), json!("i:77")),
        changed(&good, &at("/bookmarks/0/publishable"), json!(false)),
        changed(&good, &at("/contexts/1/nodeId"), json!("Other")),
        changed(&good, &at("/contexts"), json!({})),
        changed(&good, &at("/counter"), json!(1)),
        changed(&good, &at("/counter"), json!(u64::MAX)),
        changed(&good, &at("/sequence"), json!(1)),
        changed(&good, "/mainspring/history/body/journal/0/0", json!(99)),
        changed(&good, "/mainspring/history/body/activities/0", json!([1])),
        changed(&good, "/mainspring/history/beganAt", json!("0001-01-01T00:00:00Z")),
        changed(&timed, "/mainspring/timers", json!([])),
        changed(&timed, "/mainspring/timers/0/bookmarkId", json!("other")),
        changed(&timed, "/mainspring/timers/0/due", json!("+99999-01-01T00:00:00Z")),
        changed(&good, "/mainspring/timers", timed["mainspring"]["timers"].clone()),
    ];
    for file in &refused {
        let answer = import(http, file).await;
        assert_eq!(
            (answer.status, &answer.body["code"]),
            (400, &json!("instance-not-importable")),
            "{}: {file}",
            answer.body
        );
    }
    let missing = [("/definitionId", json!("none")), ("/definitionId", json!(""))];
    for (field, value) in missing {
        let answer = import(http, &changed(&good, &at(field), value)).await;
        answer.assert_refused(400, "version-not-found");
        assert!(
            answer.body["message"].as_str().unwrap().contains("a.json"),
            "{}",
            answer.body
        );
    }
    let mut other = changed(&good, &at("/versionId"), json!("none"));
    *other.pointer_mut(&at("/version")).unwrap() = json!(9);
    import(http, &other).await.assert_refused(400, "version-not-found");
    import(http, &changed(&good, &at("/instanceId"), json!("a\u{1b}")))
        .await
        .assert_refused(400, "invalid-instance-id");
    import(http, &changed(&good, &at("/correlationId"), json!("a\u{1b}")))
        .await
        .assert_refused(400, "invalid-correlation-id");
    import(http, &changed(&good, &at("/correlationId"), json!("a\0")))
        .await
        .assert_refused(400, "invalid-text");
    // One bad file, or one instance twice, refuses all.
    let text = good.to_string();
    let two = [("a.json", JSON, text.as_bytes()), ("b.json", JSON, b"{}" as &[u8])];
    upload(http, &two).await.assert_refused(400, "instance-not-importable");
    let twice = [("a.json", JSON, text.as_bytes()), ("b.json", JSON, text.as_bytes())];
    upload(http, &twice)
        .await
        .assert_refused(400, "instance-not-importable");
    // No form, no JSON, no file.
    http.post(IMPORT_ROUTE, &good)
        .await
        .assert_refused(415, "form-required");
    upload(http, &[]).await.assert_refused(400, "missing-field");
    upload(http, &[("a.json", JSON, b"{")])
        .await
        .assert_refused(400, "invalid-json");
    upload(http, &[("a.txt", "text/plain", b"x")])
        .await
        .assert_refused(400, "invalid-file");
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    upload(http, &[("a.json", JSON, deep.as_bytes())])
        .await
        .assert_refused(400, "nesting-too-deep");
    let large = vec![b' '; 11 << 20];
    upload(http, &[("a.json", JSON, &large)])
        .await
        .assert_refused(413, "body-too-large");
    // A pause, and a strategy.
    http.post("admin/workflow-runtime/pause", &json!({})).await.expect(200);
    import(http, &good).await.assert_refused(503, "runtime-paused");
    http.post("admin/workflow-runtime/resume", &json!({})).await.expect(200);
    assert_eq!(http.get("workflow-instances").await.expect(200)["totalCount"], 0);
    http.publish(&singleton(waiting("w"))).await;
    import(http, &good).await.assert_refused(409, "cannot-start");
    assert_eq!(http.get("workflow-instances").await.expect(200)["totalCount"], 0);
    node.assert_invariants();
    // After all of it, the good one is still good.
    http.publish(&waiting("w")).await;
    import(http, &good).await.expect(200);
    node.assert_invariants();
}

#[tokio::test]
async fn a_start_that_waits_has_its_id_and_nothing_to_export() {
    let (from, node) = tokio::join!(SingleNode::start(&[]), SingleNode::start(&["--workers", "0"]));
    start(&from.http, &waiting("w"), "i", json!({})).await;
    let file = export(&from.http, "i", "").await;
    let http = &node.http;
    http.publish(&waiting("w")).await;
    http.dispatch("w", &json!({"instanceId": "i"})).await;
    http.get("workflow-instances/i/export")
        .await
        .assert_refused(409, "instance-busy");
    import(http, &file).await.assert_refused(409, "instance-exists");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_whose_node_dies_is_whole_or_nothing() {
    let database = TestDatabase::create().await;
    let survivor = Node::start(&database, "survivor");
    let http = survivor.http.clone().unwrap();
    start(&http, &waiting("w"), "i", json!({})).await;
    let file = export(&http, "i", ALL_PARTS).await;
    // Without a key, a page of another origin could send this form.
    import(&http, &file).await.assert_refused(403, "header-required");
    for point in IMPORT {
        http.delete("workflow-instances/i").await;
        let mut target = Node::start_armed(&database, "target", &format!("{point}=abort")).await;
        let (armed, file) = (target.http.clone().unwrap().with_key(KEY), file.clone());
        let sent = tokio::spawn(async move { import(&armed, &file).await });
        let answer = sent.await;
        assert!(answer.is_err(), "{point}: {answer:?}");
        target.child.wait(TIMEOUT);
        let is_there = http.get("workflow-instances/i").await.status == 200;
        assert_eq!(is_there, point == "import.committed");
        assert_invariants(&database).await;
    }
    http.trigger("Go", &json!({})).await;
    http.instance_becomes("i", "Finished").await;
    assert_invariants(&database).await;
}

#[tokio::test]
async fn both_verbs_export_the_same() {
    let node = SingleNode::start(&[]).await;
    let http = &node.http;
    http.publish(&waiting("w")).await;
    http.dispatch("w", &json!({"instanceId": "i"})).await;
    http.instance_becomes("i", "Suspended").await;
    let by_get = export(http, "i", "includeBookmarks=true").await;
    let by_post = http
        .post("workflow-instances/i/export", &json!({"includeBookmarks": true}))
        .await
        .expect(200);
    assert_eq!(by_get, by_post);
    let many = http
        .get("bulk-actions/export/workflow-instances?ids=i&includeBookmarks=true")
        .await;
    assert_eq!(many.expect(200), by_get);
    node.assert_invariants();
}

#[tokio::test]
async fn many_instances_are_started_by_one_request() {
    let node = SingleNode::start(&[]).await;
    let http = &node.http;
    http.publish(&waiting("w")).await;
    let route = "workflow-definitions/w/bulk-dispatch";
    let started = http
        .post(route, &json!({"count": 300, "input": {"A": 1}}))
        .await
        .expect(200);
    let ids: std::collections::HashSet<&str> = started["workflowInstanceIds"]
        .as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), 300);
    wait_until("all to wait", async || {
        let found = http
            .get("workflow-instances?definitionId=w&subStatus=Suspended&pageSize=1")
            .await;
        found.body["totalCount"] == 300
    })
    .await;
    let one = http.post(route, &json!({})).await.expect(200);
    assert_eq!(one["workflowInstanceIds"].as_array().unwrap().len(), 1);
    http.post(route, &json!({"count": 0}))
        .await
        .assert_refused(400, "invalid-field");
    let large = "x".repeat(100_000);
    http.post(route, &json!({"count": 1_000, "input": {"A": large}}))
        .await
        .assert_refused(400, "invalid-field");
    http.post(route, &json!({"count": 1_001}))
        .await
        .assert_refused(400, "invalid-field");
    http.post(route, &json!({"count": "many"}))
        .await
        .assert_refused(400, "invalid-field");
    http.post("workflow-definitions/none/bulk-dispatch", &json!({"count": 2}))
        .await
        .assert_refused(404, "definition-not-found");
    // A repeat under the same key starts nothing again.
    let key = [("idempotency-key", "k")];
    let body = json!({"count": 3});
    let first = http
        .send(reqwest::Method::POST, route, &key, Some(&body))
        .await
        .unwrap();
    let again = http
        .send(reqwest::Method::POST, route, &key, Some(&body))
        .await
        .unwrap();
    assert_eq!(first.expect(200), again.expect(200));
    node.assert_invariants();
}
