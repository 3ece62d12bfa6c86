//! The viewer: journal, details of an activity, variables, incidents, call stack, and live changes.

use serde_json::json;

use super::{Studio, event, node, node_with, on_canvas, on_flowchart};

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_viewed_while_it_goes_on() {
    let mut waiting = on_flowchart("waiting", "Waiting", event("wait", "Go"));
    waiting["variables"] = json!([{"id": "v1", "name": "Total", "typeName": "String", "isArray": false, "value": "seven",
        "storageDriverTypeName": "Elsa.Workflows.WorkflowInstanceStorageDriver, Elsa.Workflows.Core"}]);
    let faulting = on_flowchart(
        "faulting",
        "Faulting",
        json!({"id": "boom", "type": "Elsa.Fault", "name": "boom", "metadata": {"designer": {"position": {"x": 100, "y": 100}}},
            "message": {"typeName": "String", "expression": {"type": "Literal", "value": "It broke"}}}),
    );
    let node = node(&[waiting, faulting]).await;
    let started = node.http.execute("waiting", &json!({})).await;
    let id = started["workflowState"]["id"].as_str().unwrap().to_owned();
    let path = format!("workflows/instances/{id}/view");
    let studio = Studio::signed_in_at(&format!("http://{}", node.address), "viewer", &path).await;
    studio.page.wait(&on_canvas("wait")).await;
    studio.page.wait_for_text("Event - Started").await;
    studio.page.wait_for_text("Suspended").await;
    studio.tab("Variables").await;
    studio.page.wait_for_text("seven").await;
    studio.screenshot("1-waiting").await;

    // A commit is shown without a click.
    node.http.trigger("Go", &json!({})).await;
    studio.page.wait_for_text("Event - Completed").await;
    studio.tab("Details").await;
    studio
        .page
        .wait("[...document.querySelectorAll('td')].some(cell => cell.innerText.trim() === 'Finished')")
        .await;

    // Details of an activity, and how it was called.
    let details = "document.body.innerText.includes('Elsa.Event')";
    studio.page.click_until(&on_canvas("wait"), details).await;
    studio.page.wait_for_response("/activity-executions/list").await;
    studio.page.wait_for_text("Elsa.Event").await;
    studio.page.click_text(".mud-tab", "Activity Call Stack").await;
    studio.page.wait_for_text("Call stack (3)").await;
    for entry in ["Workflow - Completed", "Flowchart - Completed", "Event - Completed"] {
        studio.page.wait_for_text(entry).await;
    }
    studio.screenshot("2-finished").await;

    // A workflow that faults is started in Studio; the browser notes the 500 that Elsa answers with.
    studio.assert_no_errors().await;
    studio.goto("workflows/definitions").await;
    studio.row_menu("Faulting", "Run").await;
    let seen = studio
        .wait_for_api("workflow-instances?subStatus=Faulted", "the faulted one", |body| {
            body["totalCount"] == json!(1)
        })
        .await;
    let faulted = seen["items"][0]["id"].as_str().unwrap().to_owned();
    studio.goto(&format!("workflows/instances/{faulted}/view")).await;
    // Its title has the number of incidents.
    let incidents =
        "[...document.querySelectorAll('.mud-tab')].find(tab => tab.textContent.trim().startsWith('Incidents'))";
    studio.page.click(incidents).await;
    studio.page.wait_for_text("It broke").await;
    studio.screenshot("3-incident").await;
    let console = studio.page.take_console();
    assert!(
        console
            .iter()
            .all(|line| line.contains("500") && line.contains("/execute")),
        "{console:?}"
    );
    studio.assert_no_errors().await;
    node.assert_invariants();
}

/// The README's picture is this screenshot, `docs/studio.png`: a sample that waits, as a reader of the guide sees it.
#[tokio::test(flavor = "multi_thread")]
async fn the_picture_of_the_readme() {
    let sample = include_str!("../../../samples/order-approval.json");
    let node = node(&[serde_json::from_str(sample).unwrap()]).await;
    let input = json!({"input": {"OrderId": "A-17", "Amount": 1200}});
    let started = node.http.execute("order-approval", &input).await;
    let id = started["workflowState"]["id"].as_str().unwrap().to_owned();
    let path = format!("workflows/instances/{id}/view");
    let studio = Studio::signed_in_at(&format!("http://{}", node.address), "picture", &path).await;
    studio.page.resize(1900, 860).await;
    studio.page.wait_for_text("Suspended").await;
    studio
        .page
        .wait("document.querySelectorAll('.x6-node').length > 5")
        .await;
    // The executions of each activity are counted on the canvas.
    let counted = format!("{}.textContent.endsWith('1')", on_canvas("Review"));
    studio.page.wait(&counted).await;
    studio.screenshot("1-waiting").await;
    studio.assert_no_errors().await;
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_hub_the_viewer_polls() {
    let waiting = on_flowchart("waiting", "Waiting", event("wait", "Go"));
    let node = node_with(&["--studio-polls"], &[waiting]).await;
    let features = node.http.get("features/installed").await.expect(200).to_string();
    assert!(
        features.contains("Elsa.Scheduling") && !features.contains("RealTimeWorkflowUpdates"),
        "{features}"
    );
    let hub = "features/installed/Elsa.RealTimeWorkflowUpdates";
    node.http.get(hub).await.assert_refused(404, "feature-not-found");
    let started = node.http.execute("waiting", &json!({})).await;
    let id = started["workflowState"]["id"].as_str().unwrap().to_owned();
    let path = format!("workflows/instances/{id}/view");
    let studio = Studio::signed_in_at(&format!("http://{}", node.address), "polls", &path).await;
    studio.page.wait_for_text("Event - Started").await;
    assert_eq!(studio.page.wait_for_response("/execution-state").await, 200);
    node.http.trigger("Go", &json!({})).await;
    studio.tab("Details").await;
    studio
        .page
        .wait("[...document.querySelectorAll('td')].some(cell => cell.innerText.trim() === 'Finished')")
        .await;
    let calls = studio.page.responses();
    assert!(calls.iter().all(|(_, url)| !url.contains("/hubs/")), "{calls:?}");
    studio.assert_no_errors().await;
    node.assert_invariants();
}
