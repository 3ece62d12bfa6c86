//! Workflows behind URLs, as clients see them: Python, curl, a browser, and those that mean harm.

mod answers;
mod bodies;
mod bookmarks;
mod cases;
mod clients;
mod cluster;
mod draining;
mod held;
mod open_connections;
mod outgoing;
mod outgoing_kill;
mod parts;
mod repeats;
mod streaming;
mod traces;

use std::time::Duration;

use reqwest::{Method, RequestBuilder};
use serde_json::{Map, Value, json};

use crate::support::client_builder;
use crate::support::single_node::SingleNode;
use crate::support::{Answer, Http};

/// A text of JavaScript as the value of an input.
pub(crate) fn script(text: &str) -> Value {
    json!({"typeName": "Object", "expression": {"type": "JavaScript", "value": text}})
}

/// An endpoint that starts workflows; its outputs are the variables of [`workflow`].
pub(crate) fn endpoint(id: &str, path: &str, methods: &[&str], more: Value) -> Value {
    let methods = serde_json::to_string(methods).unwrap();
    let output = |name: &str| json!({"typeName": "Object", "memoryReference": {"id": name}});
    let mut activity = json!({
        "id": id, "type": "Elsa.HttpEndpoint", "path": path,
        "supportedMethods": {"typeName": "String[]", "expression": {"type": "Object", "value": methods}},
        "parsedContent": output("body"), "routeData": output("route"), "queryStringData": output("query"),
        "headers": output("headers"), "files": output("files"),
        "customProperties": {"canStartWorkflow": true},
    });
    activity
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    activity
}

/// One that an instance waits at.
pub(crate) fn waits_at(id: &str, path: Value, methods: &[&str], more: Value) -> Value {
    let mut activity = endpoint(id, "", methods, more);
    activity["path"] = path;
    activity["customProperties"] = json!({});
    activity
}

/// A response whose content is an expression.
pub(crate) fn responds(id: &str, content: &str, more: Value) -> Value {
    let mut activity = json!({"id": id, "type": "Elsa.WriteHttpResponse", "content": script(content)});
    activity
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    activity
}

/// A definition that runs activities one after the other.
pub(crate) fn workflow(id: &str, activities: &[Value]) -> Value {
    let variables = ["body", "route", "query", "headers", "files"];
    let variables = variables.map(|name| json!({"id": name, "name": name, "typeName": "Object"}));
    json!({"definitionId": id, "root": {
        "id": "root", "type": "Elsa.Sequence", "variables": variables, "activities": activities,
    }})
}

/// A definition that answers each request with an expression.
pub(crate) fn echo(id: &str, path: &str, methods: &[&str], content: &str) -> Value {
    workflow(
        id,
        &[
            endpoint("in", path, methods, json!({})),
            responds("out", content, json!({})),
        ],
    )
}

/// A client of workflows, which follows no proxy settings.
pub(crate) fn client() -> reqwest::Client {
    let client = client_builder().timeout(Duration::from_secs(60));
    client.build().unwrap()
}

/// A request to a workflow of a node.
pub(crate) fn request(http: &Http, method: Method, path: &str) -> RequestBuilder {
    client().request(method, format!("http://{}/workflows/{path}", http.address()))
}

/// What a request is answered: the status, the headers, and the text.
pub(crate) struct Received {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

impl Received {
    pub(crate) async fn of(request: RequestBuilder) -> Self {
        let response = request.send().await.expect("an answer");
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.expect("the whole answer");
        Self { status, headers, text }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        match self.text.as_str() {
            "" => Value::Null,
            text => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
        }
    }

    #[track_caller]
    pub(crate) fn assert_refused(&self, status: u16, code: &str) {
        let body: Value = serde_json::from_str(&self.text).unwrap_or_default();
        assert_eq!((self.status, &body["code"]), (status, &json!(code)), "{}", self.text);
    }
}

pub(crate) async fn get(http: &Http, path: &str) -> Received {
    Received::of(request(http, Method::GET, path)).await
}

/// The instances of a definition.
pub(crate) async fn instances(http: &Http, definition: &str) -> Vec<Map<String, Value>> {
    let answer: Answer = http
        .get(&format!("workflow-instances?definitionId={definition}&pageSize=1000"))
        .await;
    let items = answer.expect(200)["items"].as_array().unwrap().clone();
    items
        .into_iter()
        .map(|item| item.as_object().unwrap().clone())
        .collect()
}

/// A node with these definitions.
pub(crate) async fn serving(settings: &[&str], definitions: &[Value]) -> SingleNode {
    let node = SingleNode::start(settings).await;
    for definition in definitions {
        node.http.publish(definition).await;
    }
    node
}
