//! What is checked at publish or evaluated is bounded: a definition beyond a bound is refused with its place, and one within the
//! bounds takes time in proportion to its size.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::single_node::{SingleNode, literal};

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
        ("JavaScript", " ".repeat(300_000) + "1", "262144"),
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
            began.elapsed() < Duration::from_secs(20),
            "{kind}: {:?}",
            began.elapsed()
        );
    }
}

/// A flowchart of these activities, with these connections.
fn flowchart(id: &str, activities: Vec<Value>, edges: impl Iterator<Item = (usize, String, usize)>) -> Value {
    let connections: Vec<Value> = edges
        .map(|(from, port, to)| {
            json!({"source": {"activity": format!("a{from}"), "port": port},
                "target": {"activity": format!("a{to}"), "port": "In"}})
        })
        .collect();
    json!({"definitionId": id, "root": {"id": "flow", "type": "Elsa.Flowchart",
        "activities": activities, "connections": connections}})
}

#[tokio::test]
async fn a_publish_takes_time_in_proportion_to_its_graph() {
    let node = SingleNode::with_key(&[]).await;
    let http = &node.http;
    let names = |count: usize| -> Vec<Value> {
        (0..count)
            .map(|n| json!({"id": format!("a{n}"), "type": "Elsa.SetName", "value": literal("x")}))
            .collect()
    };
    let done = |n: usize| (n / 20, "Done".to_owned(), (n * 7919 + n / 20) % 3_000);
    let cases: Vec<Value> = (0..3_000)
        .map(|n| json!({"label": format!("c{n}"), "condition": literal("true")}))
        .collect();
    let switches: Vec<Value> = (0..2)
        .map(|n| json!({"id": format!("a{n}"), "type": "Elsa.FlowSwitch", "cases": cases}))
        .chain(names(3_000).into_iter().skip(2))
        .collect();
    let events: Vec<Value> = (0..3_000)
        .map(|n| json!({"id": format!("a{n}"), "type": "Elsa.Event", "eventName": literal("E"), "canStartWorkflow": true}))
        .collect();
    let complete = (0..180).flat_map(|a| (0..180).map(move |b| (a, "Done".to_owned(), b)));
    let by_case = (0..6_000).map(|n| (n % 2, format!("c{}", n / 2), n % 3_000));
    let states: Vec<Value> = (0..300)
        .map(|n| json!({"name": format!("s{n}"), "entry": null}))
        .collect();
    let transitions: Vec<Value> = (0..10_000)
        .map(|n| {
            json!({"from": format!("s{}", n % 300), "to": format!("s{}", n / 300 % 300),
                "trigger": {"id": format!("t{n}"), "type": "Elsa.Event", "eventName": literal("E")}})
        })
        .collect();
    let machine = json!({"definitionId": "states", "root": {"id": "machine", "type": "Elsa.StateMachine",
        "initialState": "s0", "states": states, "transitions": transitions}});
    for (what, model, status) in [
        ("a complete graph", flowchart("complete", names(180), complete), 200),
        (
            "many connections",
            flowchart("many", names(3_000), (0..60_000).map(done)),
            200,
        ),
        (
            "a chain with ways back",
            flowchart(
                "chain",
                names(3_000),
                (0..60_000).map(|n| {
                    (
                        n % 3_000,
                        format!("p{}", n / 3_000),
                        (n % 3_000 + 1 + n / 3_000 * 2_900) % 3_000,
                    )
                }),
            ),
            200,
        ),
        (
            "connections to nothing",
            flowchart("nothing", names(10), (0..60_000).map(done)),
            400,
        ),
        ("many cases", flowchart("cases", switches, by_case), 200),
        ("many triggers", flowchart("events", events, (0..60_000).map(done)), 200),
        ("a state machine", machine, 200),
    ] {
        let began = Instant::now();
        let answer = http
            .post("workflow-definitions", &json!({"model": model, "publish": true}))
            .await;
        let took = began.elapsed();
        println!("{what}: {took:?}");
        let answer = answer.expect(status);
        assert!(took < Duration::from_secs(40), "{what}: {took:?}");
        if status == 400 {
            let problems = answer["errors"].as_object().map_or(0, |fields| fields.len());
            assert!(problems <= 100, "{problems}");
        }
    }
}
