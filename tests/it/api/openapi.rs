//! Every route of the OpenAPI document: with and without the API key, and whether its responses conform.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::node::{Node, publish};
use crate::support::openapi::{Document, Operation};
use crate::support::{Answer, Http, TestDatabase};

const KEY: &str = "the-key-of-this-test";

async fn send(http: &Http, operation: Operation<'_>, path: &str) -> Answer {
    let method = Method::from_bytes(operation.method.to_uppercase().as_bytes()).unwrap();
    let empty = json!({});
    let body: Option<&Value> = operation.has_body().then_some(&empty);
    http.send(method, path, &[], body).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_needs_the_key_and_responds_as_documented() {
    let database = TestDatabase::create().await;
    let node = Node::start_with(&database, "one", &["--api-key", KEY], "");
    let without = node.http.clone().unwrap();
    let right = without.clone().with_key(KEY);
    let wrong = without.clone().with_key("another-key-of-this-test");
    publish(&right).await;
    right
        .dispatch("walk", &json!({"instanceId": "seen", "input": {"n": 1}}))
        .await;
    right.instance_becomes("seen", "Suspended").await;

    let document = Document::of(&without).await;
    let operations = document.operations();
    assert!(operations.len() > 30, "{}", operations.len());
    let mut violations = Vec::new();
    for &operation in &operations {
        let route = format!("{} {}", operation.method, operation.path);
        for http in [&without, &wrong] {
            let answer = send(http, operation, &operation.path_with("missing")).await;
            if operation.is_open() {
                // Some of them refuse a token of their own.
                assert_ne!(answer.body["code"], "unauthorized", "{route}");
            } else {
                answer.assert_refused(401, "unauthorized");
                assert_eq!(answer.header("www-authenticate"), "Bearer, ApiKey", "{route}");
            }
            violations.extend(
                document
                    .violations(operation, &answer)
                    .into_iter()
                    .map(|text| format!("{route}: {text}")),
            );
        }
    }
    // What reads goes first, as what acts may end the instance; last what pauses the cluster.
    let turn = |operation: &Operation<'_>| match operation.method {
        _ if operation.path.contains("/admin/") => 2,
        "get" => 0,
        _ => 1,
    };
    for now in 0..3 {
        for &operation in operations.iter().filter(|operation| turn(operation) == now) {
            let route = format!("{} {}", operation.method, operation.path);
            let values: &[&str] = if operation.has_parameter() {
                &["missing", "walk", "seen"]
            } else {
                &[""]
            };
            for value in values {
                let answer = send(&right, operation, &operation.path_with(value)).await;
                assert_ne!(answer.body["code"], "unauthorized", "{route}");
                let found = document.violations(operation, &answer);
                violations.extend(found.into_iter().map(|text| format!("{route} of {value:?}: {text}")));
            }
        }
    }
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

/// A field that a route does not read takes any value in silence, and its description would be wrong.
#[tokio::test(flavor = "multi_thread")]
async fn every_described_field_is_read_as_its_type() {
    let database = TestDatabase::create().await;
    let node = Node::start(&database, "one");
    let http = node.http.clone().unwrap();
    publish(&http).await;
    http.dispatch("walk", &json!({"instanceId": "seen", "input": {"n": 1}}))
        .await;
    http.instance_becomes("seen", "Suspended").await;
    let document = Document::of(&http).await;
    // What a route needs beside the field, or it would be refused for another one.
    let needed = json!({
        "workflowInstanceId": "seen",
        "expression": {"type": "Literal", "value": "1"},
        "alterations": [{"type": "Cancel"}],
        "workflowDefinitionHandle": {"definitionId": "walk"},
        "model": {"root": {"type": "Elsa.WriteLine", "id": "line"}},
    });
    let (mut read, mut silent) = (0, Vec::new());
    for operation in document.operations() {
        let method = Method::from_bytes(operation.method.to_uppercase().as_bytes()).unwrap();
        // A request without a link, an event without a signature, and one for an unknown issuer are refused before their other
        // fields are read.
        let path = &operation.path;
        let is_by_link =
            path.contains("/resume") && !path.contains("/resume-links") || path.ends_with("/events/trigger");
        if is_by_link || path.ends_with("/webhooks") || path.contains("/identity/external/") {
            continue;
        }
        let fields = document.wrong_fields(operation).into_iter();
        let parameters = document.wrong_parameters(operation).into_iter();
        let wrong = fields
            .map(|field| (field, false))
            .chain(parameters.map(|parameter| (parameter, true)));
        for ((name, value), is_parameter) in wrong {
            let (mut full, mut query) = (needed.clone(), "?workflowInstanceId=seen".to_owned());
            let mut bodies = vec![json!({})];
            if is_parameter {
                query += &format!("&{name}={}", value.as_str().unwrap());
            } else {
                full[&name] = value.clone();
                bodies = vec![json!({ &name: value }), full];
            }
            let mut answers = Vec::new();
            for (id, body) in ["seen", "walk", "missing"]
                .into_iter()
                .flat_map(|id| bodies.iter().map(move |body| (id, body)))
            {
                let path = operation.path_with(id) + &query;
                let body = operation.has_body().then_some(body);
                let answer = http.send(method.clone(), &path, &[], body).await.unwrap();
                answers.push((answer.status, answer.body["errors"].clone()));
            }
            let is_named = |(status, errors): &(u16, Value)| {
                let mut named = errors.as_object().into_iter().flatten();
                *status == 400 && named.any(|(at, _)| at.starts_with(&name))
            };
            if answers.iter().any(is_named) {
                read += 1;
            } else {
                silent.push(format!("{} {}: {name}: {answers:?}", operation.method, operation.path));
            }
        }
    }
    assert!(silent.is_empty(), "{}", silent.join("\n"));
    assert!(read > 100, "{read}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_shown_without_a_key_and_runs_no_script() {
    let database = TestDatabase::create().await;
    let node = Node::start_with(&database, "one", &["--api-key", KEY], "");
    let http = node.http.clone().unwrap();
    let page = http.get("/openapi").await;
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    assert!(
        page.header("content-security-policy")
            .starts_with("default-src 'none'; style-src 'sha256-")
    );
    let text = page.expect(200);
    let text = text.as_str().unwrap();
    assert!(text.contains("/elsa/api/events/{id}/trigger") && !text.contains("<script"));
    let foreign = [("origin", "https://elsewhere.example")];
    let answer = http.send(Method::GET, "/openapi.json", &foreign, None).await.unwrap();
    answer.assert_refused(403, "cross-site-request");
}
