//! Requests to a node that ends.

use std::time::Duration;

use mainspring::api::{ApiOptions, router, serve};
use reqwest::Method;
use serde_json::json;

use super::{Received, client, endpoint, get, request, responds, workflow};
use crate::support::engine::{entered, gated, save};
use crate::support::node::{Node, assert_invariants};
use crate::support::{Gate, TIMEOUT, TestDatabase, wait_until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_drains_answers_what_runs_and_refuses_the_rest() {
    let (test, count, permits) = gated().await;
    let slow = workflow(
        "slow",
        &[
            endpoint("in", "slow", &["GET"], json!({})),
            json!({"id": "gate", "type": "Gate"}),
            responds("out", "'done'", json!({})),
        ],
    );
    save(&test.engine, slow).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let options = ApiOptions {
        listen: address,
        ..ApiOptions::default()
    };
    let routes = router(test.engine.clone(), options);
    let server = tokio::spawn(serve(listener, routes, std::future::pending(), Duration::ZERO));
    let send = move || Received::of(client().get(format!("http://{address}/workflows/slow")));
    let running = tokio::spawn(send());
    entered(&count, 1).await;
    let engine = test.engine.clone();
    let shutdown = tokio::spawn(async move { engine.shutdown().await });
    wait_until("the drain to begin", async || !test.engine.readiness().ready()).await;
    let refused = send().await;
    refused.assert_refused(503, "draining");
    assert_eq!(refused.header("retry-after"), "5");
    assert_eq!(refused.header("connection"), "close");
    permits.add_permits(1);
    assert_eq!(running.await.unwrap().expect(200), "done");
    shutdown.await.unwrap();
    server.abort();
    test.assert_clean_end().await;
}

/// No other node serves: clients are told when to come back, as long as something runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_node_refuses_new_requests_until_those_in_flight_have_ended() {
    let database = TestDatabase::create().await;
    let gate = Gate::new();
    let mut node = Node::start_with(&database, "one", &[], &gate.stalls("burst.instance.running"));
    let http = node.http.clone().unwrap();
    let runs = [
        endpoint("in", "runs", &["GET"], json!({})),
        responds("out", "'ran'", json!({})),
    ];
    http.publish(&workflow("runs", &runs)).await;
    let running = request(&http, Method::GET, "runs?workflowInstanceId=running");
    let running = tokio::spawn(Received::of(running));
    gate.reached().await;
    node.child.signal("TERM");
    http.readiness_becomes(503).await;
    for _ in 0..3 {
        let refused = get(&http, "runs").await;
        refused.assert_refused(503, "draining");
        assert_eq!(refused.header("retry-after"), "5");
        assert_eq!(refused.header("connection"), "close");
    }
    let refused = http.post("workflow-definitions/runs/dispatch", &json!({})).await;
    refused.assert_refused(503, "draining");
    // What begins nothing is answered.
    http.get("workflow-definitions").await.expect(200);
    gate.open();
    assert_eq!(running.await.unwrap().expect(200), "ran");
    assert_eq!(node.child.wait(TIMEOUT).code(), Some(0));
    assert_invariants(&database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_cuts_off_no_request() {
    let database = TestDatabase::create().await;
    let gate = Gate::new();
    let settings = ["--check-in", "200ms", "--drain-notice", "3s"];
    let mut one = Node::start_with(&database, "one", &settings, &gate.stalls("burst.instance.running"));
    let two = Node::start_with(&database, "two", &settings, "");
    let (leaving, staying) = (one.http.clone().unwrap(), two.http.clone().unwrap());
    let held = json!({"waitForResponse": "00:01:00"});
    for definition in [
        workflow(
            "runs",
            &[
                endpoint("in", "runs", &["GET"], json!({})),
                responds("out", "'ran'", json!({})),
            ],
        ),
        workflow(
            "held",
            &[
                endpoint("in", "held", &["GET"], held),
                json!({"id": "event", "type": "Elsa.Event", "eventName": "go"}),
                responds("out", "'held'", json!({})),
            ],
        ),
    ] {
        leaving.publish(&definition).await;
    }
    let send = |path: &str| tokio::spawn(Received::of(request(&leaving, Method::GET, path)));
    let held = send("held?workflowInstanceId=held");
    staying.instance_becomes("held", "Suspended").await;
    let running = send("runs?workflowInstanceId=running");
    gate.reached().await;
    one.child.signal("TERM");
    leaving.readiness_becomes(503).await;
    // Until its peers have noticed, it serves, and says that it goes.
    let last = get(&leaving, "runs").await;
    assert_eq!(last.header("connection"), "close");
    assert_eq!(last.expect(200), "ran");
    staying.post("events/go/trigger", &json!({})).await.expect(200);
    assert_eq!(held.await.unwrap().expect(200), "held");
    gate.open();
    assert_eq!(running.await.unwrap().expect(200), "ran");
    assert_eq!(one.child.wait(TIMEOUT).code(), Some(0));
    assert_eq!(get(&staying, "runs").await.expect(200), "ran");
    assert_invariants(&database).await;
}
