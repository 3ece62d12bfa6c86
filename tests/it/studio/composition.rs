//! A workflow as an activity: dropped, configured, run and looked into; its consumers follow it, and are exported with it.

use serde_json::{Value, json};

use super::{PUBLISH, RUN, Studio, drop_activity, line, node, on_canvas, on_flowchart, open_category, select};
use crate::support::{TIMEOUT, poll_until};

/// A workflow that others can use, which greets whom its input names.
fn greeter(greeting: &str) -> Value {
    let mut greet = line("greet", "");
    greet["text"]["expression"] = json!({"type": "JavaScript", "value": format!("'{greeting} ' + getInput('Who')")});
    let mut greeter = on_flowchart("greeter", "Greeter", greet);
    greeter["inputs"] = json!([{"name": "Who", "displayName": "Who", "type": "String", "uiHint": "singleline"}]);
    greeter["options"] = json!({"usableAsActivity": true, "autoUpdateConsumingWorkflows": true});
    greeter
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_as_an_activity_is_used_looked_into_updated_and_exported() {
    let node = node(&[greeter("Hello")]).await;
    let mut party = on_flowchart("party", "Party", Value::Null);
    party["root"]["activities"] = json!([]);
    node.http
        .post("workflow-definitions", &json!({"model": party, "publish": false}))
        .await
        .expect(200);
    let says = async |text: &str| {
        poll_until(TIMEOUT, text, async || {
            node.child.stdout().iter().any(|said| said == text).then_some(())
        })
        .await;
    };
    let studio = Studio::signed_in_at(
        &format!("http://{}", node.address),
        "composition",
        "workflows/definitions/party/edit",
    )
    .await;
    studio.save_downloads().await;

    // Dropped, and its input set.
    studio.page.wait("document.querySelector('.x6-graph')").await;
    open_category(&studio, "Workflows").await;
    drop_activity(&studio, "Greeter", (0.3, 0.3)).await;
    select(&studio, "Greeter1", "Who").await;
    studio.fill("Who", "World").await;
    let latest = "workflow-definitions/by-definition-id/party?versionOptions=Latest";
    studio
        .wait_for_api(latest, "its input", |body| {
            body["root"]["activities"][0]["who"]["expression"]["value"] == "World"
        })
        .await;
    studio.screenshot("1-configured").await;

    // Run, and looked into from the journal of all levels.
    studio.page.click(RUN).await;
    studio.page.wait_for_text("Greeter - Completed").await;
    says("Hello World").await;
    let scope = "[...document.querySelectorAll('button')].filter(b => { const r = b.getBoundingClientRect();
        return r.width && r.x < 200 && r.y > 100 })[1]";
    let entry = "[...document.querySelectorAll('*')].find(e => !e.children.length
        && e.textContent.trim() === 'Write Line - Completed')";
    studio.page.click_until(scope, entry).await;
    studio
        .page
        .click_until(
            entry,
            "document.querySelector('.mud-breadcrumbs')?.innerText.includes('Greeter1: Root')",
        )
        .await;
    studio.page.wait(&on_canvas("greet")).await;
    assert_eq!(studio.page.wait_for_response("/subgraph/segments/").await, 200);
    studio.screenshot("2-inside").await;
    let root = "[...document.querySelectorAll('.mud-breadcrumb-item')].find(e => e.textContent.trim() === 'Root')";
    studio.page.click(root).await;
    studio.page.wait(&on_canvas("Greeter1")).await;

    // A publish of the used one publishes its consumer anew.
    studio.goto("workflows/definitions/party/edit").await;
    studio.page.wait(&on_canvas("Greeter1")).await;
    studio.page.click(PUBLISH).await;
    studio
        .wait_for_api(latest, "the published version", |body| {
            body["isPublished"] == json!(true)
        })
        .await;
    let draft = json!({"model": greeter("Welcome"), "publish": false});
    node.http.post("workflow-definitions", &draft).await.expect(200);
    studio.follow("Definitions").await;
    studio.row_menu("Greeter", "Publish").await;
    studio
        .page
        .wait_for_text("One workflow consuming a published workflow has been updated")
        .await;
    studio
        .wait_for_api(latest, "a new version of the consumer", |body| {
            body["version"] == json!(2) && body["isPublished"] == json!(true)
        })
        .await;
    studio.screenshot("3-updated").await;

    // Both in one archive.
    studio.row_menu("Greeter", "Export").await;
    studio
        .page
        .click("document.querySelector('.mud-dialog .mud-checkbox label, .mud-dialog label')")
        .await;
    studio.confirm("Export").await;
    let archive = studio.downloaded(".zip").await;
    for name in ["workflow-definition-greeter-", "workflow-definition-party-"] {
        let is_in = archive.windows(name.len()).any(|part| part == name.as_bytes());
        assert!(is_in, "the archive has no {name}");
    }

    // A published one is run, and finishes.
    studio.row_menu("Party", "Run").await;
    says("Welcome World").await;
    studio
        .wait_for_api("workflow-instances?subStatus=Finished", "two that finished", |body| {
            body["totalCount"] == json!(2)
        })
        .await;
    studio.assert_no_errors().await;
    node.assert_invariants();
}
