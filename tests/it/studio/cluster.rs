//! Studio on three nodes behind HAProxy, which gives each request to the next one, while one of them is killed.

use serde_json::json;

use super::{Studio, event, line, on_flowchart, select, settings};
use crate::support::TestDatabase;
use crate::support::haproxy::HaProxy;
use crate::support::node::{NAMES, Node, assert_invariants};
use crate::support::single_node::KEY;

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_node_is_not_seen_in_studio() {
    let database = TestDatabase::create().await;
    let settings = [
        &[
            "--api-key".to_owned(),
            KEY.to_owned(),
            "--tolerance".to_owned(),
            "1s".to_owned(),
        ][..],
        &settings(),
    ]
    .concat();
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let mut nodes: Vec<Node> = NAMES
        .iter()
        .map(|name| Node::start_at(&database.url(), name, &settings, &[]))
        .collect();
    let http = nodes[1].http.clone().unwrap().with_key(KEY);
    http.publish(&on_flowchart("quick", "Quick", line("say", "Hello")))
        .await;
    http.publish(&on_flowchart("waiting", "Waiting", event("wait", "Go")))
        .await;
    let proxy = HaProxy::in_front_of(&nodes).await;
    let base = format!("http://{}", proxy.address());

    // A viewer observes through one node, while another one commits, and a third one is killed.
    let started = http.execute("waiting", &json!({})).await;
    let id = started["workflowState"]["id"].as_str().unwrap().to_owned();
    let path = format!("workflows/instances/{id}/view");
    let studio = Studio::signed_in_at(&base, "cluster", &path).await;
    studio.page.wait_for_text("Event - Started").await;
    nodes[0].child.kill9();
    http.trigger("Go", &json!({})).await;
    studio.page.wait_for_text("Event - Completed").await;

    // Lists, the editor and a run continue.
    studio.follow("Definitions").await;
    studio.wait_for_row("Quick").await;
    studio.open_page("workflows/definitions/quick/edit").await;
    select(&studio, "say", "Text").await;
    studio.fill("Text", "Changed").await;
    studio
        .wait_for_api(
            "workflow-definitions/by-definition-id/quick?versionOptions=Latest",
            "the draft",
            |body| body["version"] == json!(2),
        )
        .await;
    studio
        .page
        .click("document.querySelector('.mud-toolbar button.mud-success-text')")
        .await;
    studio.page.wait_for_text("Write Line - Completed").await;
    studio.screenshot("1-after-the-kill").await;
    studio.follow("Cluster").await;
    studio.page.wait_for_text("three").await;
    studio.screenshot("2-cluster").await;
    // The browser notes what the killed node did not answer; Studio has not stopped.
    let console = studio.page.take_console();
    assert!(console.iter().all(|line| is_of_the_network(line)), "{console:#?}");
    studio.assert_no_errors().await;
    drop(nodes);
    assert_invariants(&database).await;
}

/// Whether the browser, or SignalR, only reports that a connection ended.
fn is_of_the_network(line: &str) -> bool {
    let reports = [
        "ERR_",
        "Failed to load resource",
        "WebSocket",
        "Connection disconnected",
        "HttpConnection",
    ];
    reports.iter().any(|report| line.contains(report))
}
