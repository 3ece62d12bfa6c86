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
                assert_ne!(answer.status, 401, "{route}");
            } else {
                answer.assert_refused(401, "unauthorized");
                assert_eq!(answer.header("www-authenticate"), "ApiKey", "{route}");
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
                assert_ne!(answer.status, 401, "{route}");
                let found = document.violations(operation, &answer);
                violations.extend(found.into_iter().map(|text| format!("{route} of {value:?}: {text}")));
            }
        }
    }
    assert!(violations.is_empty(), "{}", violations.join("\n"));
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
