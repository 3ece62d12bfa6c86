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
