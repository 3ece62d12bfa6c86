//! The endpoints that the documentation of Elsa's clusters promises, with two nodes behind them.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::node::{Node, assert_invariants};
use crate::support::{Http, TestDatabase, assert_fields};

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
    http.put(path, body).await.expect(200)
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
        let answer = pair.one.put(path, &body).await;
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
