//! The list of instances: filters, search, bulk cancel and delete.

use serde_json::json;

use super::{Studio, event, line, node, on_flowchart};

/// The column with the name of the workflow.
const WORKFLOW: usize = 3;
const SUB_STATUS: usize = 6;

#[tokio::test(flavor = "multi_thread")]
async fn instances_are_filtered_cancelled_and_deleted() {
    let node = node(&[
        on_flowchart("quick", "Quick", line("say", "Hello")),
        on_flowchart("slow", "Slow", event("wait", "Never")),
    ])
    .await;
    for n in 0..3 {
        node.http.execute("quick", &json!({})).await;
        node.http
            .execute("slow", &json!({"correlationId": format!("order-{n}")}))
            .await;
    }
    let studio = Studio::signed_in(&format!("http://{}", node.address), "instances").await;
    studio.follow("Instances").await;
    studio
        .wait_for_column(WORKFLOW, &["Slow", "Quick", "Slow", "Quick", "Slow", "Quick"])
        .await;
    studio.screenshot("1-list").await;

    // By status.
    studio.page.click(&super::field("Status")).await;
    studio.choose("Finished").await;
    studio.wait_for_column(WORKFLOW, &["Quick"; 3]).await;
    studio.choose("Finished").await;
    studio.choose("Running").await;
    studio.wait_for_column(WORKFLOW, &["Slow"; 3]).await;
    studio.choose("Running").await;
    studio.page.key("Escape", 27, 0).await;
    studio
        .wait_for_column(WORKFLOW, &["Slow", "Quick", "Slow", "Quick", "Slow", "Quick"])
        .await;

    // By text.
    let search = "document.querySelector('input[placeholder^=\"Search\"]')";
    studio.page.fill(search, "order-1").await;
    studio.page.key("Enter", 13, 0).await;
    studio.wait_for_column(WORKFLOW, &["Slow"]).await;
    studio.page.fill(search, "quick").await;
    studio.page.key("Enter", 13, 0).await;
    studio.wait_for_column(WORKFLOW, &["Quick"; 3]).await;
    studio.page.fill(search, " ").await;
    studio.page.key("Enter", 13, 0).await;
    studio
        .wait_for_column(WORKFLOW, &["Slow", "Quick", "Slow", "Quick", "Slow", "Quick"])
        .await;

    // By date: all were created after the first day of the last month, and none before it.
    studio.button("Date filters").await;
    studio.button("Add").await;
    studio.page.click(&super::field("Column")).await;
    studio.choose("Created").await;
    studio.page.click(&super::field("Date")).await;
    studio
        .page
        .click("document.querySelector('.mud-picker-calendar-header-switch button')")
        .await;
    studio
        .page
        .click(&super::by_text(".mud-picker-calendar-day", "1"))
        .await;
    choose_operator(&studio, "Is Before").await;
    studio.wait_until_no_row("Slow").await;
    studio.screenshot("2-dates").await;
    studio.button("Date filters").await;
    choose_operator(&studio, "Is After").await;
    studio
        .wait_for_column(WORKFLOW, &["Slow", "Quick", "Slow", "Quick", "Slow", "Quick"])
        .await;
    studio.assert_no_errors().await;

    // Cancel those that wait, delete all.
    studio.goto("workflows/instances").await;
    studio.page.click(&super::field("Status")).await;
    studio.choose("Running").await;
    studio.wait_for_column(WORKFLOW, &["Slow"; 3]).await;
    studio.page.key("Escape", 27, 0).await;
    // One by its id, then all that match the filter, of which one is ticked.
    studio.tick("order-0").await;
    studio.button("Bulk actions").await;
    studio.choose("Cancel").await;
    studio.confirm("Yes").await;
    studio.wait_for_column(WORKFLOW, &["Slow"; 2]).await;
    studio.tick("order-1").await;
    studio.button("Bulk actions").await;
    studio.choose("Cancel").await;
    studio
        .page
        .click("document.querySelector('.mud-dialog .mud-checkbox label, .mud-dialog label')")
        .await;
    studio.screenshot("3-cancel").await;
    studio.confirm("Yes").await;
    assert_eq!(studio.page.wait_for_response("/alterations/submit").await, 200);
    studio
        .wait_for_api("workflow-instances?subStatus=Cancelled", "three cancelled", |body| {
            body["totalCount"] == json!(3)
        })
        .await;
    studio.goto("workflows/instances").await;
    studio
        .wait_for_column(
            SUB_STATUS,
            &[
                "Cancelled",
                "Finished",
                "Cancelled",
                "Finished",
                "Cancelled",
                "Finished",
            ],
        )
        .await;
    studio.page.click("document.querySelector('thead label')").await;
    studio.button("Bulk actions").await;
    studio.choose("Delete").await;
    studio.confirm("Delete").await;
    studio
        .wait_for_api("workflow-instances", "none", |body| body["totalCount"] == json!(0))
        .await;
    studio.assert_no_errors().await;
    node.assert_invariants();
}

/// Chooses the operator of the filter by date, and applies it.
async fn choose_operator(studio: &Studio, operator: &str) {
    studio.page.click(&super::field("Operator")).await;
    studio.choose(operator).await;
    studio.button("Apply").await;
}
