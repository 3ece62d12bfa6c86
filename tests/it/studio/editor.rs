//! The editor: a workflow is drawn, configured, saved by itself, published, changed, rolled back and run.

use serde_json::{Value, json};

use super::{
    PUBLISH, RUN, Studio, drop_activity, line, node, node_with, on_canvas, on_flowchart, open_category, select,
};
use crate::support::browser::by_text;
use crate::support::receiver::SECRET;

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_is_drawn_configured_and_published() {
    let source = json!({"name": "Shop", "secret": SECRET, "eventTypes": [{"eventType": "order.paid", "displayName": "Order paid"}]});
    let sources = std::env::temp_dir().join(format!("mainspring-studio-{}.json", uuid::Uuid::new_v4()));
    std::fs::write(&sources, json!({"sources": [source]}).to_string()).unwrap();
    let node = node_with(&["--webhooks-file", sources.to_str().unwrap()], &[]).await;
    std::fs::remove_file(&sources).unwrap();
    let studio = Studio::signed_in(&format!("http://{}", node.address), "editor").await;
    studio.page.wait_for_text("No workflow definitions found").await;
    studio.button("Create workflow").await;
    studio.fill("Name", "Drawn").await;
    studio.confirm("Ok").await;
    studio.page.wait("document.querySelector('.x6-graph')").await;
    let path = studio.page.eval("location.pathname").await;
    let id = path.as_str().unwrap().split('/').rev().nth(1).unwrap().to_owned();
    let latest = format!("workflow-definitions/by-definition-id/{id}?versionOptions=Latest");

    // The events of a source are in the toolbox.
    open_category(&studio, "Shop").await;
    studio.page.position(&by_text("[draggable=true]", "Order paid")).await;

    // Two activities, the first with a literal, and a connection.
    open_category(&studio, "Console").await;
    drop_activity(&studio, "Write Line", (0.15, 0.2)).await;
    select(&studio, "WriteLine1", "Text").await;
    studio.fill("Text", "Hello").await;
    studio
        .wait_for_api(&latest, "the literal", |body| {
            text_of(body, "WriteLine1")["value"] == "Hello"
        })
        .await;
    drop_activity(&studio, "Write Line", (0.5, 0.45)).await;
    studio.page.wait(&on_canvas("WriteLine2")).await;
    let from = studio.page.position(&port("WriteLine1", "Done")).await;
    let to = studio.page.position(&port("WriteLine2", "In")).await;
    studio.page.drag(from, to).await;
    studio.page.wait("document.querySelector('.x6-edge')").await;

    // A script, and a variable.
    let empty = format!("({})?.value === ''", super::field("Text"));
    studio.page.click_until(&on_canvas("WriteLine2"), &empty).await;
    studio.page.click(&syntax_menu("Text")).await;
    studio.choose("JavaScript").await;
    let code = "[...document.querySelectorAll('.monaco-editor')].find(e => e.getBoundingClientRect().width)";
    studio.page.click(code).await;
    studio
        .page
        .wait("document.querySelector('.monaco-editor.focused')")
        .await;
    studio.page.insert("`2 + 3 = ${2 + 3}`").await;
    studio
        .wait_for_api(&latest, "the script", |body| {
            let text = text_of(body, "WriteLine2");
            text["type"] == "JavaScript" && text["value"] == "`2 + 3 = ${2 + 3}`"
        })
        .await;
    studio.tab("Variables").await;
    studio.button("Add variable").await;
    studio.fill("Name", "Total").await;
    studio.confirm("Ok").await;
    let saved = studio
        .wait_for_api(&latest, "the variable", |body| body["variables"][0]["name"] == "Total")
        .await;
    assert_eq!(saved["root"]["connections"].as_array().unwrap().len(), 1, "{saved}");
    assert_eq!(saved["isPublished"], json!(false));
    studio.screenshot("1-drawn").await;

    // A draft runs; the viewer opens.
    studio.page.click(RUN).await;
    studio
        .page
        .wait("location.pathname.includes('/workflows/instances/')")
        .await;
    studio.page.wait_for_text("Write Line - Completed").await;
    let path = studio.page.eval("location.pathname").await;
    let instance = path.as_str().unwrap().split('/').rev().nth(1).unwrap().to_owned();
    let seen = studio
        .http
        .get(&format!("workflow-instances/{instance}"))
        .await
        .expect(200);
    assert_eq!(seen["subStatus"], "Finished");
    assert_eq!(seen["definitionVersionId"], saved["id"], "the draft ran");
    // Studio reads on while its page opens.
    studio.page.wait_for_response("/variables").await;

    // Publish, change the published version, which makes a draft, and go back.
    studio.goto(&format!("workflows/definitions/{id}/edit")).await;
    studio.page.wait(&on_canvas("WriteLine1")).await;
    studio.page.click(PUBLISH).await;
    studio
        .wait_for_api(&latest, "the published version", |body| {
            body["isPublished"] == json!(true)
        })
        .await;
    let published = studio.http.get(&latest).await.expect(200)["version"].clone();
    select(&studio, "WriteLine1", "Text").await;
    studio.fill("Text", "Changed").await;
    studio
        .wait_for_api(&latest, "a draft beside it", |body| {
            body["version"] != published
                && body["isPublished"] == json!(false)
                && text_of(body, "WriteLine1")["value"] == "Changed"
        })
        .await;
    studio.tab("Version history").await;
    let versions = "document.querySelectorAll('tbody tr').length";
    studio.page.wait(&format!("{versions} === 2")).await;
    studio.row_view(&published.to_string(), "View").await;
    studio.page.wait(&format!("{versions} === 2")).await;
    studio.screenshot("2-versions").await;
    version_menu(&studio, &published, "Rollback to this version").await;
    studio
        .wait_for_api(&latest, "the old content as a draft", |body| {
            body["version"] != published && text_of(body, "WriteLine1")["value"] == "Hello"
        })
        .await;

    // Published, it is the newest of three, and the oldest is deleted.
    studio.goto(&format!("workflows/definitions/{id}/edit")).await;
    studio.page.wait(&on_canvas("WriteLine1")).await;
    studio.page.click(PUBLISH).await;
    studio
        .wait_for_api(&latest, "the old content as published", |body| {
            body["version"] != published && body["isPublished"] == json!(true)
        })
        .await;
    studio.tab("Version history").await;
    version_menu(&studio, &published, "Delete").await;
    studio.confirm("OK").await;
    let all = format!("workflow-definitions?versionOptions=AllVersions&definitionIds={id}");
    studio
        .wait_for_api(&all, "the two newer versions", |body| body["totalCount"] == json!(2))
        .await;
    studio.wait_until_no_row(&published.to_string()).await;
    studio.assert_no_errors().await;
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread")]
async fn nested_containers_and_the_test_of_one_activity_work() {
    let nested = json!({"id": "each", "type": "Elsa.ForEach", "name": "each", "metadata": {"designer": {"position": {"x": 100, "y": 100}}},
        "items": {"typeName": "Object", "expression": {"type": "JavaScript", "value": "[1, 2]"}},
        "body": {"id": "inner", "type": "Elsa.Flowchart", "name": "inner", "activities": [line("inside", "Inside")], "connections": []}});
    let node = node(&[
        on_flowchart("nested", "Nested", nested),
        on_flowchart("plain", "Plain", line("say", "Hello")),
    ])
    .await;
    let studio = Studio::signed_in_at(
        &format!("http://{}", node.address),
        "nested",
        "workflows/definitions/nested/edit",
    )
    .await;
    // The port of the container leads into it.
    let port = "document.querySelector('.x6-node .embedded-port')";
    studio.page.click_until(port, &on_canvas("inside")).await;
    studio.screenshot("1-inside").await;
    select(&studio, "inside", "Text").await;
    studio.fill("Text", "Changed inside").await;
    let latest = "workflow-definitions/by-definition-id/nested?versionOptions=Latest";
    studio
        .wait_for_api(latest, "the change inside", |body| {
            body.to_string().contains("Changed inside")
        })
        .await;

    // One activity is run by itself.
    studio.open_page("workflows/definitions/plain/edit").await;
    select(&studio, "say", "Text").await;
    studio.tab("Test").await;
    studio.button("Start").await;
    assert_eq!(studio.page.wait_for_response("/tests/activities").await, 200);
    studio.page.wait_for_text("Completed").await;
    studio.screenshot("2-tested").await;
    let instances = studio.http.get("workflow-instances").await.expect(200);
    assert_eq!(instances["totalCount"], json!(0), "a test leaves no instance");
    studio.assert_no_errors().await;
    node.assert_invariants();
}

/// The expression of the text of an activity.
fn text_of(definition: &Value, activity: &str) -> Value {
    let activities = definition["root"]["activities"].as_array().cloned().unwrap_or_default();
    let found = activities.into_iter().find(|one| one["name"] == activity);
    found.map_or(Value::Null, |one| one["text"]["expression"].clone())
}

/// The button beside a field that offers the types of expressions.
fn syntax_menu(label: &str) -> String {
    format!(
        "(() => {{ let e = {}; while (e && !e.querySelector('.mud-menu button')) e = e.parentElement; return e?.querySelector('.mud-menu button') }})()",
        super::field(label)
    )
}

/// A port of an activity on the canvas.
fn port(activity: &str, name: &str) -> String {
    format!(
        "[...document.querySelectorAll('.x6-node')].find(n => n.textContent.includes({}))?.querySelector('[port={name}] circle')",
        json!(activity)
    )
}

/// Chooses an entry of the menu of a version.
async fn version_menu(studio: &Studio, version: &Value, entry: &str) {
    studio.row_menu(&version.to_string(), entry).await;
}
