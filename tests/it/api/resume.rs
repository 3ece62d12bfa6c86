//! The endpoints that the documentation of Elsa's clusters promises, with two nodes behind them.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::node::{Node, assert_invariants};
use crate::support::{Http, TestDatabase, assert_fields};

const KEY: &str = "0123456789abcdef";

struct Pair {
    database: TestDatabase,
    _nodes: [Node; 2],
    one: Http,
    two: Http,
}

impl Pair {
    async fn start(settings: &[&str]) -> Self {
        let database = TestDatabase::create().await;
        let settings = [&["--check-in", "200ms"], settings].concat();
        let nodes = ["one", "two"].map(|name| Node::start_with(&database, name, &settings, ""));
        let [one, two] = [0, 1].map(|at: usize| nodes[at].http.clone().unwrap());
        Self {
            database,
            _nodes: nodes,
            one,
            two,
        }
    }
}

fn event(id: &str, name: &str) -> Value {
    json!({"type": "Elsa.Event", "id": id, "eventName": {"typeName": "String", "expression": {"type": "Literal", "value": name}}})
}

/// Waits for an event, and then for the next one.
fn waits() -> Value {
    json!({"name": "Waits", "root": {"type": "Elsa.Sequence", "id": "root", "activities": [event("a", "A"), event("b", "B")]}})
}

async fn started(http: &Http, definition: &str) -> String {
    let body = http
        .post("workflow-instances", &json!({"definitionId": definition}))
        .await
        .expect(200);
    let id = body["workflowInstanceId"].as_str().unwrap().to_owned();
    http.instance_becomes(&id, "Suspended").await;
    id
}

async fn put(http: &Http, path: &str, body: &Value) -> Value {
    http.send(Method::PUT, path, &[], Some(body)).await.unwrap().expect(200)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_put_on_one_node_runs_on_the_other_at_once() {
    let pair = Pair::start(&[]).await;
    let path = "workflow-definitions/changing";
    for n in 1..=30 {
        let line = json!({"typeName": "String", "expression": {"type": "Literal", "value": n.to_string()}});
        let definition = json!({"name": format!("n{n}"), "root": {"type": "Elsa.WriteLine", "id": "w", "text": line}});
        // As it is, or as a save has it.
        let body = if n % 2 == 0 {
            definition
        } else {
            json!({"model": definition})
        };
        let (updated, started) = if n % 3 == 0 {
            (&pair.two, &pair.one)
        } else {
            (&pair.one, &pair.two)
        };
        let saved = put(updated, path, &body).await;
        assert_eq!(saved["workflowDefinition"]["definitionId"], "changing");
        assert_fields!(saved["workflowDefinition"], {"isPublished": true, "version": n});
        let start = json!({"definitionId": "changing"});
        let id = started.post("workflow-instances", &start).await.expect(200)["workflowInstanceId"].clone();
        let shown = started
            .get(&format!("workflow-instances/{}", id.as_str().unwrap()))
            .await
            .expect(200);
        assert_eq!(shown["version"], n);
    }
    // A draft, if `publish` is false; and what is read can be sent back.
    let draft = put(
        &pair.one,
        path,
        &json!({"model": {"name": "draft", "root": event("a", "A")}, "publish": false}),
    )
    .await;
    assert_fields!(draft["workflowDefinition"], {"isPublished": false, "version": 31});
    let read = pair.two.get(path).await.expect(200);
    let published = put(&pair.two, path, &read).await;
    assert_fields!(published["workflowDefinition"], {"isPublished": true, "version": 31});
    for (body, code) in [
        (json!({}), "missing-root"),
        (json!({"model": {}, "publish": 1}), "invalid-field"),
        (json!([]), "invalid-definition"),
    ] {
        let answer = pair.one.send(Method::PUT, path, &[], Some(&body)).await.unwrap();
        answer.assert_refused(400, code);
    }
    assert_invariants(&pair.database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resume_without_a_body_is_for_the_only_bookmark() {
    let pair = Pair::start(&[]).await;
    put(&pair.one, "workflow-definitions/waits", &waits()).await;
    let both = json!({"name": "Both", "root": {"type": "Elsa.Flowchart", "id": "f", "activities":
        [{"type": "Elsa.Start", "id": "s"}, event("a", "A"), event("b", "B")], "connections": [
        {"source": {"activity": "s", "port": "Done"}, "target": {"activity": "a"}},
        {"source": {"activity": "s", "port": "Done"}, "target": {"activity": "b"}}]}});
    put(&pair.one, "workflow-definitions/both", &both).await;
    let resume = async |http: &Http, id: &str, body: Option<&Value>| {
        let path = format!("workflow-instances/{id}/resume");
        http.send(Method::POST, &path, &[], body).await.unwrap()
    };
    let id = started(&pair.one, "waits").await;
    let state = resume(&pair.two, &id, None).await.expect(200);
    assert_eq!(state["workflowState"]["subStatus"], "Suspended");
    let state = resume(&pair.one, &id, None).await.expect(200);
    assert_eq!(state["workflowState"]["subStatus"], "Finished");
    let late = resume(&pair.two, &id, None).await;
    late.assert_refused(409, "already-resumed");
    let unknown = resume(&pair.two, "nobody", None).await;
    unknown.assert_refused(404, "instance-not-found");

    let id = started(&pair.two, "both").await;
    let several = resume(&pair.one, &id, None).await;
    several.assert_refused(409, "several-bookmarks");
    let ids: Vec<&str> = several.body["errors"]["bookmarkId"]
        .as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), 2, "{}", several.body);
    for bookmark in ids {
        let named = json!({"bookmarkId": bookmark});
        resume(&pair.two, &id, Some(&named)).await.expect(200);
        let again = resume(&pair.one, &id, Some(&named)).await;
        again.assert_refused(409, "already-resumed");
    }
    assert_invariants(&pair.database).await;
}

/// Makes an event URL for so long, as its output, and waits for the event.
fn sends_a_link(lifetime: &str) -> Value {
    let script = format!("createEventTriggerUrl('Approved', {lifetime})");
    json!({"definitionId": "approval", "outputs": [{"name": "Url", "type": "String"}],
        "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
            {"type": "Elsa.SetOutput", "id": "link", "outputName": {"typeName": "String", "expression": {"type": "Literal", "value": "Url"}},
             "outputValue": {"typeName": "String", "expression": {"type": "JavaScript", "value": script}}},
            {"type": "Elsa.Event", "id": "wait", "eventName": {"typeName": "String", "expression": {"type": "Literal", "value": "Approved"}}}]}})
}

#[tokio::test(flavor = "multi_thread")]
async fn the_holder_of_an_event_url_triggers_this_event_of_its_instance() {
    let pair = Pair::start(&["--api-key", KEY, "--public-url", "https://flows.example/base/"]).await;
    let (one, two) = (pair.one.clone().with_key(KEY), pair.two.clone().with_key(KEY));
    let link = async |lifetime: &str| {
        put(&one, "workflow-definitions/approval", &sends_a_link(lifetime)).await;
        let id = started(&two, "approval").await;
        let state = one.get(&format!("workflow-instances/{id}")).await.expect(200);
        let url = state["workflowState"]["output"]["Url"].as_str().unwrap();
        let path = url.strip_prefix("https://flows.example/base").unwrap().to_owned();
        assert!(path.starts_with("/elsa/api/events/trigger?t=v1."), "{path}");
        (id, path)
    };
    let (id, path) = link("'1.00:00:00'").await;
    let (other, _) = link("null").await;
    // What triggers nothing: a HEAD, a forged token, none, a foreign host.
    assert_eq!(pair.two.send(Method::HEAD, &path, &[], None).await.unwrap().status, 405);
    let forged = pair.two.get(&path[..path.len() - 1]).await;
    forged.assert_refused(400, "invalid-token");
    pair.two
        .get("events/trigger")
        .await
        .assert_refused(400, "invalid-token");
    let strange = [("host", "evil.example")];
    let answer = pair.two.send(Method::GET, &path, &strange, None).await.unwrap();
    answer.assert_refused(403, "host-not-allowed");
    // A token of one kind is none of the other.
    let token = path.split_once("t=").unwrap().1;
    let resumed = pair.two.get(&format!("bookmarks/resume?t={token}")).await;
    resumed.assert_refused(400, "invalid-token");
    let link_in_a_mail = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
    let triggered = pair.two.send(Method::GET, &path, &link_in_a_mail, None).await.unwrap();
    assert_eq!(triggered.status, 200);
    one.instance_becomes(&id, "Finished").await;
    let state = one.get(&format!("workflow-instances/{other}")).await.expect(200);
    assert_eq!(state["workflowState"]["subStatus"], "Suspended", "another instance");

    // One that is too old, by the database's clock.
    let (_, path) = link("new Date(Date.now() - 1)").await;
    pair.one.get(&path).await.assert_refused(400, "token-expired");
    // One forever, by a POST, until its instance is deleted.
    let (last, path) = link("undefined").await;
    assert_eq!(pair.one.post(&path, &json!({})).await.status, 200);
    one.instance_becomes(&last, "Finished").await;
    // Its holder takes no idempotency key of a client of the API.
    let (_, keyed) = link("null").await;
    let key = [("idempotency-key", "order-7")];
    let taken = pair.one.send(Method::POST, &keyed, &key, None).await.unwrap();
    assert_eq!(taken.status, 200);
    let by_client = one
        .send(
            Method::POST,
            "events/Approved/trigger",
            &key,
            Some(&json!({"input": 1})),
        )
        .await;
    assert_eq!(by_client.unwrap().status, 200);
    let deleted = one
        .send(Method::DELETE, &format!("workflow-instances/{last}"), &[], None)
        .await;
    assert!(deleted.unwrap().status < 300);
    pair.one.get(&path).await.assert_refused(404, "instance-not-found");
    assert_invariants(&pair.database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_holder_of_a_token_resumes_one_bookmark_once() {
    let pair = Pair::start(&["--api-key", KEY]).await;
    let (one, two) = (pair.one.clone().with_key(KEY), pair.two.clone().with_key(KEY));
    put(&one, "workflow-definitions/waits", &waits()).await;
    let token = async |id: &str, body: Value| {
        let path = format!("workflow-instances/{id}/resume-token");
        assert_eq!(pair.one.post(&path, &json!({})).await.status, 401);
        one.post(&path, &body).await.expect(200)
    };
    let id = started(&two, "waits").await;
    let made = token(&id, json!({})).await;
    let (path, elsa) = (made["path"].as_str().unwrap(), made["elsaPath"].as_str().unwrap());
    assert!(path.starts_with("/workflows/resume/v1.") && elsa.starts_with("/elsa/api/bookmarks/resume?t=v1."));

    // What does not resume: a GET, a forged token, no token.
    let answer = pair
        .two
        .send(Method::POST, &path.replace("v1.", "v1.x"), &[], None)
        .await
        .unwrap();
    answer.assert_refused(400, "invalid-token");
    let answer = pair.two.get("bookmarks/resume").await;
    answer.assert_refused(400, "invalid-token");
    let answer = pair.two.get(&elsa[..elsa.len() - 1]).await;
    answer.assert_refused(400, "invalid-token");
    assert_eq!(pair.two.send(Method::HEAD, path, &[], None).await.unwrap().status, 405);
    let answer = pair.two.post(path, &json!({"input": 7})).await;
    answer.assert_refused(400, "invalid-field");
    let strange = [("host", "evil.example")];
    let answer = pair.two.send(Method::GET, path, &strange, None).await.unwrap();
    answer.assert_refused(403, "host-not-allowed");

    // A link in a mail: no key, another site, the other node.
    let link = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
    let state = pair
        .two
        .send(Method::GET, &format!("{elsa}&in=%7B%22a%22%3A1%7D"), &link, None)
        .await
        .unwrap()
        .expect(200);
    // The holder of the link learns how it went, and nothing that the instance holds.
    assert_eq!(state, json!({"status": "Suspended"}));
    pair.one.get(path).await.assert_refused(409, "already-resumed");
    let answer = pair.one.post(&format!("{path}?async=true"), &json!({})).await;
    answer.assert_refused(409, "already-resumed");

    // The next bookmark has a token of its own, which waits for nothing.
    let next = token(&id, json!({"lifetimeSeconds": 3600})).await;
    let accepted = pair
        .two
        .post(
            &format!("{}?async=true", next["path"].as_str().unwrap()),
            &json!({"input": {"a": 1}}),
        )
        .await
        .expect(200);
    assert_eq!(accepted, json!({"status": "Accepted"}));
    one.instance_becomes(&id, "Finished").await;

    // With the key, the state is shown.
    let id = started(&two, "waits").await;
    let made = token(&id, json!({})).await;
    let state = two.get(made["path"].as_str().unwrap()).await.expect(200);
    assert_eq!(state["workflowState"]["id"], id);

    // A fault has no message.
    let faults = json!({"name": "Faults", "root": {"type": "Elsa.Sequence", "id": "s", "activities": [event("a", "A"),
        {"type": "Elsa.Fault", "id": "f", "message": {"typeName": "String", "expression": {"type": "Literal", "value": "inner"}}}]}});
    put(&one, "workflow-definitions/faults", &faults).await;
    let id = started(&two, "faults").await;
    let made = token(&id, json!({})).await;
    let answer = pair.two.get(made["path"].as_str().unwrap()).await;
    assert_eq!((answer.status, answer.body), (500, json!({"status": "Faulted"})));

    // One that is too old, by the database's clock.
    let id = started(&two, "waits").await;
    let short = token(&id, json!({"lifetimeSeconds": 1})).await;
    // Until it expires.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let answer = pair.one.get(short["path"].as_str().unwrap()).await;
    answer.assert_refused(400, "token-expired");
    let answer = one
        .post(
            &format!("workflow-instances/{id}/resume-token"),
            &json!({"lifetimeSeconds": 0}),
        )
        .await;
    answer.assert_refused(400, "invalid-field");
    let answer = one.post("workflow-instances/nobody/resume-token", &json!({})).await;
    answer.assert_refused(404, "instance-not-found");
    assert_invariants(&pair.database).await;
}
