//! Traces, as a collector receives them and as other servers do.

use serde_json::{Value, json};

use super::{Received, endpoint, request, responds, script, workflow};
use crate::support::collector::{CollectedSpan, Collector, drawn};
use crate::support::node::Node;
use crate::support::receiver::Receiver;
use crate::support::{Child, Http, TIMEOUT, TestDatabase, wait_until};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

fn literal(type_name: &str, value: &str) -> Value {
    json!({"typeName": type_name, "expression": {"type": "Literal", "value": value}})
}

fn header(flags: &str) -> String {
    format!("00-{TRACE}-{CALLER}-{flags}")
}

fn child() -> Value {
    let line = json!({"id": "line", "type": "Elsa.WriteLine", "text": literal("String", "child")});
    json!({"definitionId": "child", "root": {"id": "root", "type": "Elsa.Sequence", "activities": [line]}})
}

/// Runs a child, asks another server, answers, waits for a moment, and writes a line.
fn traced(target: &Receiver) -> Value {
    let run = json!({"id": "run", "type": "Elsa.ExecuteWorkflow", "workflowDefinitionId": literal("String", "child"),
        "waitForCompletion": literal("Boolean", "true")});
    let ask = json!({"id": "ask", "type": "Elsa.SendHttpRequest", "method": "GET",
        "url": script(&format!("`{}/asked`", target.base()))});
    let rest = json!({"id": "rest", "type": "Elsa.Delay", "timeSpan": literal("TimeSpan", "00:00:00.2")});
    let line = json!({"id": "line", "type": "Elsa.WriteLine", "text": literal("String", "rested")});
    let answers = responds("out", "'done'", json!({}));
    workflow(
        "traced",
        &[
            endpoint("in", "traced", &["GET"], json!({})),
            run,
            ask,
            answers,
            rest,
            line,
        ],
    )
}

fn node(database: &TestDatabase, name: &'static str, settings: &[&str]) -> (Node, Http) {
    let settings = [&["--check-in", "200ms", "--drain-notice", "0s"], settings].concat();
    let node = Node::start_with(database, name, &settings, "");
    let http = node.http.clone().unwrap();
    (node, http)
}

async fn publish(http: &Http, target: &Receiver) {
    http.publish(&child()).await;
    http.publish(&traced(target)).await;
}

async fn ask(http: &Http, traceparent: Option<&str>) {
    let mut asked = request(http, reqwest::Method::GET, "traced");
    if let Some(traceparent) = traceparent {
        asked = asked.header("traceparent", traceparent);
    }
    assert_eq!(Received::of(asked).await.expect(200), "done");
}

/// The `traceparent` that the other server has received last.
async fn asked(target: &Receiver, count: usize) -> Vec<String> {
    let received = target.wait_for(count).await;
    let last = received.last().unwrap().header("traceparent");
    last.split('-').map(str::to_owned).collect()
}

fn one<'a>(spans: &'a [CollectedSpan], name: &str, parent: &str) -> &'a CollectedSpan {
    let found: Vec<_> = spans
        .iter()
        .filter(|span| span.name == name && span.parent == parent)
        .collect();
    assert_eq!(found.len(), 1, "{name} below {parent}:\n{}", drawn(spans));
    found[0]
}

fn has(spans: &[CollectedSpan], name: &str) -> bool {
    spans.iter().any(|span| span.name == name)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_over_http_is_one_trace_with_its_child_and_its_request() {
    let (collector, target) = (Collector::start().await, Receiver::start().await);
    let database = TestDatabase::create().await;
    let (_one, http) = node(&database, "one", &["--otlp-endpoint", collector.endpoint()]);
    publish(&http, &target).await;
    ask(&http, Some(&header("01"))).await;
    let sent = asked(&target, 1).await;
    let spans = collector
        .wait_for("span of what follows the delay", |spans| {
            has(spans, "activity Elsa.WriteLine") && spans.iter().any(|span| !span.links.is_empty())
        })
        .await;
    println!("{}", drawn(&spans));

    let accept = one(&spans, "accept", CALLER);
    assert_eq!((accept.trace.as_str(), accept.kind), (TRACE, 2));
    assert_eq!((accept.service.as_str(), accept.node.as_str()), ("mainspring", "one"));
    let burst = one(&spans, "burst", &accept.id);
    assert_eq!(burst.attributes["mainspring.definition.id"], "traced");
    assert_eq!(burst.status, 0);
    one(&spans, "activity Elsa.HttpEndpoint", &burst.id);
    let runs = one(&spans, "activity Elsa.ExecuteWorkflow", &burst.id);
    let of_child = one(&spans, "burst", &runs.id);
    assert_eq!(of_child.attributes["mainspring.definition.id"], "child");
    one(&spans, "activity Elsa.WriteLine", &of_child.id);
    for burst in [burst, of_child] {
        let commit = one(&spans, "commit", &burst.id);
        assert_eq!(
            (commit.attributes["db.system.name"].as_str(), commit.kind),
            ("postgresql", 3)
        );
        assert!(commit.began >= burst.began && commit.ended <= burst.ended);
        assert_eq!(commit.trace, TRACE);
    }
    let asks = one(&spans, "activity Elsa.SendHttpRequest", &burst.id);
    assert_eq!(asks.attributes["mainspring.activity.id"], "ask");
    assert_eq!(sent, ["00", TRACE, &asks.id, "01"]);

    // What the timer resumes is a trace of its own.
    let resumed = spans.iter().find(|span| !span.links.is_empty()).unwrap();
    assert_eq!((resumed.name.as_str(), resumed.parent.as_str()), ("burst", ""));
    assert_ne!(resumed.trace, TRACE);
    assert_eq!(resumed.links, [(TRACE.to_owned(), burst.id.clone())]);
    one(&spans, "activity Elsa.WriteLine", &resumed.id);
    let claim = one(&spans, "claim", &resumed.id);
    assert_eq!((claim.trace.as_str(), claim.kind), (resumed.trace.as_str(), 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_node_continues_the_trace_of_a_dispatch() {
    let collector = Collector::start().await;
    let database = TestDatabase::create().await;
    let export = ["--otlp-endpoint", collector.endpoint(), "--otlp-ratio", "0"];
    let (_one, first) = node(&database, "one", &[&export[..], &["--workers", "0"]].concat());
    let (mut two, _second) = node(&database, "two", &export);
    let line = |id: &str| json!({"id": id, "type": "Elsa.WriteLine", "text": literal("String", id)});
    let event = json!({"id": "wait", "type": "Elsa.Event", "eventName": literal("String", "go")});
    let steps = [line("before"), event, line("after")];
    first
        .publish(&json!({"definitionId": "d", "root": {"id": "root", "type": "Elsa.Sequence", "activities": steps}}))
        .await;
    let post = async |path: &str, body: Value, traceparent: &str| {
        let headers = [("traceparent", traceparent)];
        first
            .send(reqwest::Method::POST, path, &headers, Some(&body))
            .await
            .unwrap()
    };
    let started = post("workflow-definitions/d/dispatch", json!({}), &header("01"))
        .await
        .expect(200);
    let id = started["workflowInstanceId"].as_str().unwrap().to_owned();
    first.instance_becomes(&id, "Suspended").await;
    // An event of another trace: its burst continues that, with a link to the burst before.
    let other = format!("00-{}-{CALLER}-01", TRACE.replace('4', "5"));
    post("events/go/trigger", json!({}), &other).await.expect(200);
    first.instance_becomes(&id, "Finished").await;
    // A caller whose trace is not sampled decides so for all that it sets off.
    let unsampled = post("workflow-definitions/d/dispatch", json!({}), &header("00"))
        .await
        .expect(200);
    first
        .instance_becomes(unsampled["workflowInstanceId"].as_str().unwrap(), "Suspended")
        .await;
    // A node that ends sends what it has.
    two.child.signal("TERM");
    two.child.wait(TIMEOUT);
    let spans = collector
        .wait_for("trace of both nodes", |spans| {
            spans.iter().filter(|span| span.name == "burst").count() >= 2
                && spans.iter().filter(|span| span.name == "accept").count() >= 2
        })
        .await;
    println!("{}", drawn(&spans));
    let of_trace = |trace: &str| {
        spans
            .iter()
            .filter(|span| span.trace == trace)
            .cloned()
            .collect::<Vec<_>>()
    };
    let started = of_trace(TRACE);
    let accept = one(&started, "accept", CALLER);
    let burst = one(&started, "burst", &accept.id);
    assert_eq!((accept.node.as_str(), burst.node.as_str()), ("one", "two"));
    one(&started, "claim", &accept.id);
    one(&started, "commit", &burst.id);
    one(&started, "activity Elsa.WriteLine", &burst.id);
    let resumed = of_trace(&TRACE.replace('4', "5"));
    let accept = one(&resumed, "accept", CALLER);
    let after = one(&resumed, "burst", &accept.id);
    assert_eq!(after.links, [(TRACE.to_owned(), burst.id.clone())]);
    assert_eq!(spans.len(), started.len() + resumed.len(), "{}", drawn(&spans));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_collector_the_trace_of_a_caller_is_passed_on() {
    let target = Receiver::start().await;
    let database = TestDatabase::create().await;
    let (_one, http) = node(&database, "one", &[]);
    publish(&http, &target).await;
    for (count, flags) in [(1, "01"), (2, "00")] {
        ask(&http, Some(&header(flags))).await;
        let sent = asked(&target, count).await;
        assert_eq!((sent[1].as_str(), sent[3].as_str()), (TRACE, flags));
        assert_ne!(sent[2], CALLER);
    }
    // What is no trace is none, and refuses nothing.
    ask(&http, Some("00-1-1-01")).await;
    let own = asked(&target, 3).await;
    assert!(own[1] != TRACE && own[3] == "01", "{own:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_is_away_costs_no_run_anything() {
    let target = Receiver::start().await;
    let database = TestDatabase::create().await;
    let (one, http) = node(&database, "one", &["--otlp-endpoint", "http://127.0.0.1:9"]);
    publish(&http, &target).await;
    for count in 1..=5 {
        ask(&http, None).await;
        asked(&target, count).await;
    }
    wait_until("the loss to be logged", async || one.child.logs("spans are lost")).await;
    let wrong = [("MAINSPRING_OTLP_ENDPOINT", "localhost:4318")];
    let mut refused = Child::start(&["serve", "--database-url", &database.url()], &wrong);
    assert_eq!(refused.wait(TIMEOUT).code(), Some(2), "{:?}", refused.stderr());
}
