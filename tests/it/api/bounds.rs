//! What is checked at publish or evaluated is bounded: a definition beyond a bound is refused with its place.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::single_node::SingleNode;

/// `var a0=(1,2);var a1=(a0,a0);…`, and an end.
fn doubled(end: &str) -> String {
    let mut text = "var a0=(1,2);".to_owned();
    for number in 1..44 {
        let before = number - 1;
        let _ = write!(text, "var a{number}=(a{before},a{before});");
    }
    text + end
}

fn script(kind: &str, value: &str) -> Value {
    json!({"id": "Set", "type": "Elsa.SetName",
        "value": {"typeName": "String", "expression": {"type": kind, "value": value}}})
}

#[tokio::test]
async fn an_expression_beyond_a_bound_is_refused_with_its_place() {
    let node = SingleNode::with_key(&[]).await;
    let http = &node.http;
    let types = format!("System.Collections.Generic.{}", "List<".repeat(100_000));
    for (kind, text, wanted) in [
        ("CSharp", doubled("a43==a43"), "more than 256 types"),
        ("CSharp", doubled("int x=a43;return x;"), "more than 256 types"),
        ("CSharp", "(".repeat(60_000), "200 levels deep"),
        ("CSharp", " ".repeat(70_000) + "1", "65536"),
        ("JavaScript", " ".repeat(70_000) + "1", "65536"),
        ("Liquid", "x".repeat(300_000), "262144"),
    ] {
        let began = Instant::now();
        let body = json!({"expression": {"type": kind, "value": text}, "typeName": types});
        let done = http.post("expressions/evaluate", &body).await.expect(200);
        let message = done["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains(wanted) && message.len() < 3_000, "{kind}: {done}");
        let model = json!({"definitionId": "hostile", "root": script(kind, &text)});
        let refused = http
            .post("workflow-definitions", &json!({"model": model, "publish": true}))
            .await;
        refused.assert_refused(400, "invalid-definition");
        let refused = refused.expect(400).to_string();
        assert!(refused.contains(wanted) && refused.contains("Set"), "{kind}: {refused}");
        // A draft may be anything that parses, and a test of its activity is refused for the same reason.
        http.post("workflow-definitions", &json!({"model": model}))
            .await
            .expect(200);
        let test = json!({"workflowDefinitionHandle": {"definitionId": "hostile", "versionOptions": "Latest"},
            "activityHandle": {"activityId": "Set"}});
        let tested = http.post("tests/activities", &test).await.expect(200);
        let exception = tested["exception"].to_string();
        assert!(
            exception.contains(wanted) && exception.len() < 8_000,
            "{kind}: {tested}"
        );
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "{kind}: {:?}",
            began.elapsed()
        );
    }
}

#[tokio::test]
async fn a_publish_says_whose_name_is_too_long_and_where() {
    let node = SingleNode::with_key(&[]).await;
    let http = &node.http;
    let (longest, long) = ("n".repeat(1024), "n".repeat(1025));
    let model = |correlation: &str, variables: Value| {
        let correlate = json!({"id": "5f1c2a7b", "type": "Elsa.Correlate", "name": "Correlate1",
            "metadata": {"displayText": "By order"},
            "correlationId": {"typeName": "String", "expression": {"type": "Literal", "value": correlation}}});
        json!({"definitionId": "names", "root": correlate, "variables": variables})
    };
    let publish = async |model: Value| {
        let body = json!({"model": model, "publish": true});
        http.post("workflow-definitions", &body).await
    };
    let refused = publish(model(&long, json!([]))).await;
    refused.assert_refused(400, "invalid-definition");
    let message = refused.body["errors"]["5f1c2a7b"][0].as_str().unwrap_or_default();
    assert!(
        message.contains("\"By order\" (Elsa.Correlate)") && message.contains("has 1025 bytes, and at most 1024"),
        "{}",
        refused.body
    );
    let total = json!({"id": "t", "name": "Total", "typeName": "Int32", "value": "much"});
    let refused = publish(model(&longest, json!([total, total]))).await;
    refused.assert_refused(400, "invalid-definition");
    let problems = refused.body["errors"]["variables.Total"].as_array().map_or(0, Vec::len);
    assert!(problems >= 2, "{}", refused.body);
    let saved = publish(model(&longest, json!([]))).await.expect(200);
    assert_eq!(saved["workflowDefinition"]["isPublished"], true);
    let ended = http
        .post("workflow-definitions/names/execute", &json!({}))
        .await
        .expect(200);
    assert_eq!(ended["workflowState"]["correlationId"], longest);
}
