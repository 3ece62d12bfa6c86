//! The REST API of a real node: Elsa's envelopes, and bad input of every kind.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::client_builder;
use crate::support::single_node::SingleNode;
use crate::support::{Answer, Http, TIMEOUT, long, poll_until, wait_until};

/// A node that asks for no key, with a client that sends none.
async fn keyless_node() -> SingleNode {
    let mut node = SingleNode::start(&[]).await;
    node.http = Http::new(&format!("http://{}", node.address));
    node
}

/// Waits for a line that a workflow wrote.
async fn says(node: &SingleNode, line: &str) {
    wait_until(line, async || node.child.stdout().iter().any(|said| said == line)).await;
}

impl SingleNode {
    /// Sends a body as it is.
    async fn send(&self, path: &str, content_type: &str, body: impl Into<reqwest::Body>) -> (u16, Value) {
        let client = client_builder().build().unwrap();
        let request = client
            .post(format!("http://{}/elsa/api/{path}", self.address))
            .header("content-type", content_type);
        let response = request.body(body).send().await.unwrap();
        let status = response.status().as_u16();
        (status, serde_json::from_str(&response.text().await.unwrap()).unwrap())
    }

    async fn count(&self, list: &str) -> u64 {
        self.http.get(list).await.expect(200)["totalCount"].as_u64().unwrap()
    }
}

fn literal(kind: &str, value: impl Into<Value>) -> Value {
    json!({"typeName": kind, "expression": {"type": "Literal", "value": value.into()}})
}

fn script(kind: &str, code: &str) -> Value {
    json!({"typeName": kind, "expression": {"type": "JavaScript", "value": code}})
}

fn write_line(id: &str, text: &str) -> Value {
    json!({"id": id, "type": "Elsa.WriteLine", "text": literal("String", text)})
}

#[track_caller]
fn refused(answer: &Answer, status: u16, code: &str) {
    answer.assert_refused(status, code);
    assert_eq!(answer.body["statusCode"], status);
    assert!(
        answer.body["message"]
            .as_str()
            .is_some_and(|message| !message.is_empty())
    );
    // Elsa's clients read the texts of `errors`, and only of this type.
    assert_eq!(answer.header("content-type"), "application/problem+json");
    let errors = answer.body["errors"].as_object().unwrap();
    let message = &answer.body["message"];
    assert!(errors.contains_key("generalErrors") || errors.values().any(|texts| texts[0] == *message));
}

#[tokio::test]
async fn a_workflow_is_saved_published_run_and_read_back() {
    let node = keyless_node().await;
    let http = &node.http;
    let model = json!({"definitionId": "hello", "name": "Hello", "isPublished": true, "root": write_line("w", "Hello!"),
        "ourOwn": {"kept": 1}});
    let imported = http.post("workflow-definitions/import", &model).await.expect(200);
    assert_eq!(imported["isPublished"], false);
    assert_eq!(imported["ourOwn"]["kept"], 1);
    let answer = http.post("workflow-definitions/hello/execute", &json!({})).await;
    refused(&answer, 404, "definition-not-found");

    let publish = async || {
        let answer = http.post("workflow-definitions/hello/publish", &json!({})).await;
        answer.expect(200)
    };
    let published = publish().await;
    assert_eq!(published["alreadyPublished"], false);
    assert_eq!(published["workflowDefinition"]["isPublished"], true);
    let again = publish().await;
    assert_eq!(again["alreadyPublished"], true);

    let version = published["workflowDefinition"]["id"].as_str().unwrap();
    for path in [
        "workflow-definitions/hello".to_owned(),
        "workflow-definitions/by-definition-id/hello?versionOptions=Published".to_owned(),
        format!("workflow-definitions/by-id/{version}"),
    ] {
        assert_eq!(http.get(&path).await.expect(200)["definitionId"], "hello", "{path}");
    }
    let list = http
        .get("workflow-definitions?versionOptions=Latest&page=0&pageSize=10")
        .await
        .expect(200);
    assert_eq!(list["totalCount"], 1);
    assert_eq!(list["items"][0]["definitionId"], "hello");

    let executed = http
        .post("workflow-definitions/hello/execute", &json!({"correlationId": "c"}))
        .await;
    let instance = executed.header("x-elsa-workflow-instance-id").to_owned();
    let state = executed.expect(200)["workflowState"].clone();
    assert_eq!(
        (state["status"].as_str(), state["subStatus"].as_str()),
        (Some("Finished"), Some("Finished"))
    );
    assert_eq!(state["id"], instance.as_str());
    says(&node, "Hello!").await;

    let shown = http.get(&format!("workflow-instances/{instance}")).await.expect(200);
    assert_eq!(
        (shown["definitionId"].as_str(), shown["correlationId"].as_str()),
        (Some("hello"), Some("c"))
    );
    let journal = http
        .get(&format!("workflow-instances/{instance}/journal"))
        .await
        .expect(200);
    let texts = journal["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["activityState"]["Text"]);
    assert!(texts.into_iter().any(|text| text == "Hello!"), "{journal}");
    let filter = json!({"filter": {"activityIds": ["w"], "eventNames": ["Completed"]}});
    let filtered = http
        .post(&format!("workflow-instances/{instance}/journal?skip=0&take=5"), &filter)
        .await
        .expect(200);
    assert_eq!(filtered["totalCount"], 1, "{filtered}");

    let path = "workflow-definitions/hello/execute";
    refused(&http.get(path).await, 403, "header-required");
    let program = [("x-requested-with", "it")];
    let by_get = http.send(Method::GET, path, &program, None).await.unwrap();
    assert_eq!(by_get.expect(200)["workflowState"]["status"], "Finished");
    assert_eq!(
        node.count("workflow-instances?definitionId=hello&status=Finished")
            .await,
        2
    );
    let dispatched = http
        .post("workflow-definitions/hello/dispatch", &json!({"instanceId": "mine"}))
        .await;
    assert_eq!(dispatched.expect(200), json!({"workflowInstanceId": "mine"}));
    let taken = http
        .post("workflow-definitions/hello/dispatch", &json!({"instanceId": "mine"}))
        .await;
    refused(&taken, 409, "instance-id-taken");
    let started = http
        .post("workflow-instances", &json!({"definitionId": "hello", "name": "n"}))
        .await
        .expect(200);
    assert!(started["workflowInstanceId"].is_string(), "{started}");
}

#[tokio::test]
async fn waiting_instances_are_resumed_met_by_events_and_cancelled() {
    let node = keyless_node().await;
    let http = &node.http;
    let wait = json!({"id": "e", "type": "Elsa.Event", "eventName": literal("String", "Go")});
    let root = json!({"id": "s", "type": "Elsa.Sequence", "activities": [wait, write_line("w", "gone")]});
    node.publish("waits", root).await;
    let start = async || {
        let answer = http.post("workflow-definitions/waits/execute", &json!({})).await;
        let id = answer.header("x-elsa-workflow-instance-id").to_owned();
        assert_eq!(answer.expect(200)["workflowState"]["subStatus"], "Suspended");
        id
    };
    let status = async |id: &str| {
        let shown = http.get(&format!("workflow-instances/{id}")).await.expect(200);
        shown["subStatus"].as_str().unwrap().to_owned()
    };

    let (first, second) = (start().await, start().await);
    let resumed = http
        .post(
            &format!("workflow-instances/{first}/resume"),
            &json!({"input": {"a": 1}}),
        )
        .await;
    assert_eq!(resumed.expect(200)["workflowState"]["status"], "Finished");
    assert_eq!(
        http.post(&format!("workflow-instances/{first}/resume"), &json!({}))
            .await
            .status,
        409
    );

    let event = http
        .post(
            "events/Go/trigger",
            &json!({"workflowInstanceId": second, "input": {"a": 1}}),
        )
        .await;
    assert_eq!((event.status, event.body.clone()), (200, Value::Null));
    wait_until("the event to be matched", async || status(&second).await == "Finished").await;

    let third = start().await;
    let cancelled = http
        .send(Method::POST, &format!("cancel/workflow-instances/{third}"), &[], None)
        .await
        .unwrap();
    assert_eq!((cancelled.status, cancelled.body), (200, Value::Null));
    wait_until("the cancel", async || status(&third).await == "Cancelled").await;
    assert_eq!(
        http.post(&format!("cancel/workflow-instances/{third}"), &json!({}))
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn a_retry_under_its_key_starts_nothing_twice() {
    let node = keyless_node().await;
    node.publish("hello", write_line("w", "once")).await;
    let post = async |body: Value| {
        let headers = [("idempotency-key", "k-1")];
        node.http
            .send(
                Method::POST,
                "workflow-definitions/hello/dispatch",
                &headers,
                Some(&body),
            )
            .await
            .unwrap()
    };
    let first = post(json!({"name": "a"})).await.expect(200);
    assert_eq!(post(json!({"name": "a"})).await.expect(200), first);
    refused(&post(json!({"name": "b"})).await, 422, "idempotency-key-reused");
    let spaces = [("idempotency-key", "k 1")];
    let bad = node
        .http
        .send(Method::POST, "workflow-definitions/hello/dispatch", &spaces, None)
        .await
        .unwrap();
    refused(&bad, 400, "invalid-idempotency-key");
    wait_until("one run", async || node.count("workflow-instances").await == 1).await;
}

#[tokio::test]
async fn bad_bodies_change_nothing() {
    let node = keyless_node().await;
    let json = "application/json";
    let deep = format!("{{\"model\": {}1{}}}", "[".repeat(10_000), "]".repeat(10_000));
    let large = format!("\"{}\"", "x".repeat(10_485_759));
    for (kind, body, status, code) in [
        (json, r#"{"model": "#, 400, "invalid-json"),
        (json, "[]", 400, "invalid-body"),
        (json, "{}", 400, "missing-field"),
        (json, r#"{"model": 1}"#, 400, "invalid-field"),
        (json, r#"{"model": {}, "publish": "yes"}"#, 400, "invalid-field"),
        (json, r#"{"model": {"name": "a\u0000b"}}"#, 400, "invalid-text"),
        (json, r#"{"model": {"name": "a\ud800b"}}"#, 400, "invalid-text"),
        (json, r#"{"model": {"variables": 1}}"#, 400, "invalid-definition"),
        (json, &deep, 400, "nesting-too-deep"),
        (json, &large, 413, "body-too-large"),
        ("text/plain", "{}", 415, "json-required"),
    ] {
        let shown = body.chars().take(60).collect::<String>();
        let (seen, answer) = node.send("workflow-definitions", kind, body.to_owned()).await;
        assert_eq!(
            (seen, answer["code"].as_str()),
            (status, Some(code)),
            "{shown}: {answer}"
        );
    }
    assert_eq!(node.count("workflow-definitions").await, 0);
    refused(&node.http.get("workflow-instances?page=-1").await, 400, "invalid-field");
    let answer = node.http.get("workflow-definitions?versionOptions=newest").await;
    refused(&answer, 400, "invalid-field");
    refused(&node.http.get("nowhere").await, 404, "no-such-route");
    let answer = node.http.delete("workflow-definitions/import").await;
    refused(&answer, 405, "method-not-allowed");
}

#[tokio::test]
async fn what_is_unknown_is_not_found() {
    let node = keyless_node().await;
    for path in [
        "workflow-definitions/none",
        "workflow-definitions/by-definition-id/none",
        "workflow-definitions/by-id/none",
        "workflow-definitions/none/execute",
        "workflow-instances/none",
        "workflow-instances/none/journal",
        "workflow-instances/none/variables",
    ] {
        let program = [("x-requested-with", "it")];
        let answer = node.http.send(Method::GET, path, &program, None).await.unwrap();
        assert_eq!(answer.status, 404, "{path}");
    }
    for path in [
        "workflow-definitions/none/publish",
        "workflow-definitions/none/execute",
        "workflow-definitions/none/dispatch",
        "workflow-instances/none/resume",
        "cancel/workflow-instances/none",
        "tasks/none/complete",
    ] {
        assert_eq!(node.http.post(path, &json!({})).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn a_bad_definition_is_a_draft_and_is_not_published() {
    let node = keyless_node().await;
    let (unknown, twice) = (
        json!({"id": "u", "type": "Acme.Unknown"}),
        json!([write_line("w", "a"), write_line("w", "b")]),
    );
    let typed = json!({"id": "d", "type": "Elsa.Delay", "timeSpan": literal("TimeSpan", "soon")});
    for (id, root, word) in [
        ("unknown-type", unknown, "Acme.Unknown"),
        (
            "twice",
            json!({"id": "s", "type": "Elsa.Sequence", "activities": twice}),
            "w",
        ),
        ("wrongly-typed", typed, "imeSpan"),
    ] {
        let draft = json!({"definitionId": id, "root": root});
        node.http.post("workflow-definitions/import", &draft).await.expect(200);
        let refusal = node
            .http
            .post(&format!("workflow-definitions/{id}/publish"), &json!({}))
            .await;
        refused(&refusal, 400, "invalid-definition");
        assert!(
            !refusal.body["errors"].as_object().unwrap().is_empty(),
            "{}",
            refusal.body
        );
        assert!(refusal.body.to_string().contains(word), "{}", refusal.body);
        let shown = node.http.get(&format!("workflow-definitions/{id}")).await.expect(200);
        assert_eq!(shown["isPublished"], false);
    }
}

#[tokio::test]
async fn an_older_version_is_not_published_over_a_newer_one() {
    let node = keyless_node().await;
    let save = async |version: i32, text: &str| {
        let model = json!({"definitionId": "d", "version": version, "root": write_line("w", text)});
        let save = json!({"model": model, "publish": true});
        node.http.post("workflow-definitions", &save).await
    };
    for (version, text) in [(1, "a"), (2, "b"), (3, "c")] {
        let saved = save(version, text).await.expect(200);
        assert_eq!(saved["workflowDefinition"]["version"], version);
    }
    refused(&save(2, "d").await, 409, "newer-version-published");
    assert_eq!(node.http.get("workflow-definitions/d").await.expect(200)["version"], 3);
}

#[tokio::test]
async fn endless_and_unstorable_work_is_stopped_and_the_node_goes_on() {
    let node = keyless_node().await;
    let loops = json!({"id": "l", "type": "Elsa.While", "condition": literal("Boolean", true),
        "body": {"id": "v", "type": "Elsa.SetName", "value": literal("String", "n")}});
    let spins = json!({"id": "w", "type": "Elsa.WriteLine", "text": script("String", "while (true) {}")});
    let nul = json!({"id": "w", "type": "Elsa.SetName", "value": script("String", "'a\\u0000b'")});
    for (id, root) in [("loops", loops), ("spins", spins), ("nul", nul)] {
        node.publish(id, root).await;
        if id == "loops" && !long() {
            // It ends after very many activities, and all the others run beside it.
            let path = "workflow-definitions/loops/dispatch";
            node.http.post(path, &json!({})).await.expect(200);
            continue;
        }
        let answer = node
            .http
            .post(&format!("workflow-definitions/{id}/execute"), &json!({}))
            .await;
        let instance = answer.header("x-elsa-workflow-instance-id").to_owned();
        // A long burst yields, and the answer is what it had come to by then.
        assert!([500, 202, 200].contains(&answer.status), "{id}: {}", answer.body);
        assert!(
            answer.status != 200 || answer.body["workflowState"]["subStatus"] == "Executing",
            "{id}: {}",
            answer.body
        );
        let faulted = async || {
            let shown = node.http.get(&format!("workflow-instances/{instance}")).await;
            (shown.status == 200 && shown.body["subStatus"] == "Faulted").then_some(shown.body)
        };
        let shown = poll_until(Duration::from_secs(240), id, faulted).await;
        assert!(shown["incidentCount"].as_i64().unwrap() > 0, "{shown}");
    }
    assert_eq!(node.http.get("/health/ready").await.status, 200);
}

#[tokio::test]
async fn a_client_that_hangs_up_cancels_nothing() {
    let node = keyless_node().await;
    let slow = "const end = Date.now() + 500; while (Date.now() < end) {} 'late'";
    let root = json!({"id": "w", "type": "Elsa.WriteLine", "text": script("String", slow)});
    node.publish("slow", root).await;
    let hasty = client_builder().timeout(Duration::from_millis(150)).build().unwrap();
    let url = format!("http://{}/elsa/api/workflow-definitions/slow/execute", node.address);
    assert!(hasty.post(url).send().await.unwrap_err().is_timeout());
    let finished = async || (node.count("workflow-instances?status=Finished").await == 1).then_some(());
    poll_until(TIMEOUT, "the burst that no caller waits for", finished).await;
    says(&node, "late").await;
}

#[tokio::test]
async fn while_the_database_is_away_it_is_503_and_then_all_is_well_again() {
    let node = keyless_node().await;
    node.publish("hello", write_line("w", "here")).await;
    node.database.lock_out().await;
    let execute = async || node.http.post("workflow-definitions/hello/execute", &json!({})).await;
    let away = poll_until(TIMEOUT, "a 503", async || {
        Some(execute().await).filter(|answer| answer.status == 503)
    })
    .await;
    assert_eq!(away.header("retry-after"), "1");
    assert_eq!(away.body["statusCode"], 503);
    node.http.readiness_becomes(503).await;
    assert_eq!(node.http.get("/health/live").await.status, 200);
    node.database.allow_connections(true).await;
    wait_until("recovery", async || execute().await.status == 200).await;
    node.http.readiness_becomes(200).await;
}

/// The client that started it may be gone: the operator sees it in the log, one line whatever the ids hold.
#[tokio::test]
async fn a_fault_is_logged_with_its_ids_and_a_resume_of_it_says_so() {
    let node = keyless_node().await;
    let fails = json!({"id": "broken", "type": "Elsa.Fault", "message": literal("String", "no such\norder")});
    node.publish("fails", fails).await;
    let ran = node.http.post("workflow-definitions/fails/execute", &json!({})).await;
    let id = ran.body["workflowState"]["id"].as_str().unwrap().to_owned();
    let line = poll_until(TIMEOUT, "the fault in the log", async || {
        let lines = node.child.stderr();
        lines.into_iter().find(|line| line.contains("its instance is faulted"))
    })
    .await;
    for part in ["WARN", &id, "\"fails\"", "\"broken\"", "Elsa.Fault", "no such\\norder"] {
        assert!(line.contains(part), "{part} is not in: {line}");
    }
    let resumed = node
        .http
        .post(&format!("workflow-instances/{id}/resume"), &json!({}))
        .await;
    refused(&resumed, 409, "instance-faulted");
}
