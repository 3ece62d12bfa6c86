//! The page around Studio: below a path of a proxy, without a key, with a path that cannot be decoded, and beside a page of
//! another origin.

use serde_json::json;
use tokio::net::TcpListener;

use super::{Studio, event, on_canvas, on_flowchart, settings};
use crate::support::prefix_proxy::{ELSEWHERE, PrefixProxy};
use crate::support::single_node::{SingleNode, literal};

const PREFIX: &str = "/tools/flows";

#[tokio::test(flavor = "multi_thread")]
async fn the_page_works_below_a_path_and_without_a_key() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let origin = format!("http://127.0.0.1:{port}");
    let mut settings = settings();
    settings.extend(["--cors-origin".to_owned(), origin.clone()]);
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let node = SingleNode::start(&settings).await;
    node.http
        .publish(&on_flowchart("waiting", "Waiting", event("wait", "Go")))
        .await;
    let _proxy = PrefixProxy::start(listener, PREFIX, node.address.clone());

    // No key is asked for, and every address is below the path.
    let studio = Studio::open(&format!("{origin}{PREFIX}"), "host-page", "").await;
    studio.wait_for_row("Waiting").await;
    let path = studio.page.eval("location.pathname").await;
    assert_eq!(path, json!(format!("{PREFIX}/studio/workflows/definitions")));
    let asks = "document.getElementById('ms-sign-in').open || !document.getElementById('ms-user').hidden";
    assert_eq!(studio.page.eval(asks).await, json!(false));

    // An instance is seen live, through the WebSocket below the path.
    let started = node.http.execute("waiting", &json!({})).await;
    let id = started["workflowState"]["id"].as_str().unwrap().to_owned();
    studio.goto(&format!("workflows/instances/{id}/view")).await;
    studio.page.wait(&on_canvas("wait")).await;
    studio.page.wait_for_text("Event - Started").await;
    node.http.trigger("Go", &json!({})).await;
    studio.page.wait_for_text("Event - Completed").await;
    studio.screenshot("1-below-a-path").await;

    // A path with an id that cannot be decoded leads to the list.
    studio
        .page
        .eval("history.pushState(null, '', 'workflows/definitions/%E0%A4%A/edit')")
        .await;
    studio.wait_for_row("Waiting").await;
    studio.assert_no_errors().await;

    // A page of an origin that is listed reads; the same page by another name does not.
    let read = format!(
        "fetch('http://{}/elsa/api/workflow-definitions')
            .then(answer => answer.status, () => 'refused')",
        node.address
    );
    for (host, outcome) in [("127.0.0.1", json!(200)), ("localhost", json!("refused"))] {
        studio.page.goto(&format!("http://{host}:{port}{ELSEWHERE}")).await;
        studio.page.wait(&format!("location.host === '{host}:{port}'")).await;
        assert_eq!(studio.page.eval(&read).await, outcome, "{host}");
    }
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_faulted_is_retried_by_a_button_of_the_cluster_page() {
    let settings = settings();
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let node = SingleNode::start(&settings).await;
    let child = json!({"id": "child", "type": "Elsa.DispatchWorkflow", "workflowDefinitionId": literal("later")});
    node.http
        .publish(&json!({"definitionId": "faults", "root": child}))
        .await;
    node.http.dispatch("faults", &json!({"instanceId": "i"})).await;
    node.http.instance_becomes("i", "Faulted").await;
    node.http
        .publish(&json!({"definitionId": "later", "root": event("wait", "Go")}))
        .await;
    let studio = Studio::open(&format!("http://{}", node.address), "cluster-retry", "").await;
    studio.goto("cluster").await;
    studio.page.click_text(".ms-table button", "Retry").await;
    studio.page.wait_for_text("Executed again: 1.").await;
    node.http.instance_becomes("i", "Finished").await;
    studio.page.wait_for_text("No activity has faulted.").await;
    studio.screenshot("1-retried").await;
    studio.assert_no_errors().await;
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_messages_of_an_instance_are_behind_its_page() {
    let settings = settings();
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let node = SingleNode::start(&settings).await;
    let link =
        json!({"typeName": "String", "expression": {"type": "JavaScript", "value": "createEventTriggerUrl('Go')"}});
    let sends = json!({"id": "link", "type": "Elsa.WriteLine", "text": link});
    let activities = json!([sends, event("wait", "Go")]);
    node.http
        .publish(
            &json!({"definitionId": "asks", "root": {"id": "root", "type": "Elsa.Sequence", "activities": activities}}),
        )
        .await;
    node.http.dispatch("asks", &json!({"instanceId": "i"})).await;
    node.http.instance_becomes("i", "Suspended").await;
    let studio = Studio::open(&format!("http://{}", node.address), "messages", "").await;
    studio.goto("workflows/instances/i/view").await;
    studio.page.click_text(".ms-nav a", "Messages").await;
    studio.page.wait_for_text("Messages of i").await;
    studio.page.wait_for_text("Uses Left").await;
    studio.page.wait_for_text("Nothing was sent to a sink.").await;
    studio.page.wait_for_text("No mail was sent.").await;
    studio.screenshot("1-links").await;
    studio.page.click_text(".ms-back", "Back to the instance").await;
    studio.page.wait("location.pathname.endsWith('/view')").await;
    studio.assert_no_errors().await;
    node.assert_invariants();
}
