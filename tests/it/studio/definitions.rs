//! The list of definitions: what its users read, make, import, export, publish and delete.

use serde_json::{Value, json};

use super::{Studio, line, node, on_flowchart};

/// The name column.
const NAME: usize = 2;

#[tokio::test(flavor = "multi_thread")]
async fn definitions_are_listed_made_and_managed() {
    let definitions: Vec<Value> = (1..=12)
        .map(|n| {
            on_flowchart(
                &format!("sample-{n:02}"),
                &format!("Sample {n:02}"),
                line("say", "Hello"),
            )
        })
        .collect();
    let node = node(&definitions).await;
    let studio = Studio::open(&format!("http://{}", node.address), "definitions", "").await;
    studio.save_downloads().await;

    // A wrong key, then the right one.
    studio.sign_in("0123456789abcdeX").await;
    studio.page.wait_for_text("The server does not accept this key.").await;
    // The browser itself reports the 401 of the test of a key.
    assert_eq!(studio.page.take_console().len(), 1);
    studio.sign_in(super::KEY).await;
    let names: Vec<String> = (1..=12).map(|n| format!("Sample {n:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    studio.wait_for_column(NAME, &names[..10]).await;
    studio.screenshot("1-list").await;

    // Pages, orders and search.
    studio
        .page
        .click("document.querySelector('[aria-label=\"Next page\"]')")
        .await;
    studio.wait_for_column(NAME, &names[10..]).await;
    studio
        .page
        .click("document.querySelector('[aria-label=\"First page\"]')")
        .await;
    studio.wait_for_column(NAME, &names[..10]).await;
    sort_by_name(&studio).await;
    sort_by_name(&studio).await;
    let descending: Vec<&str> = names.iter().rev().copied().take(10).collect();
    studio.wait_for_column(NAME, &descending).await;
    let search = "document.querySelector('input[placeholder^=\"Search\"]')";
    studio.page.fill(search, "Sample 07").await;
    studio.page.key("Enter", 13, 0).await;
    studio.wait_for_column(NAME, &["Sample 07"]).await;

    // Create and rename.
    studio.button("Create workflow").await;
    studio.fill("Name", "Made here").await;
    studio.confirm("Ok").await;
    studio.page.wait("document.querySelector('.x6-graph')").await;
    let path = studio.page.eval("location.pathname").await;
    let made = path.as_str().unwrap().split('/').rev().nth(1).unwrap().to_owned();
    let by_id = format!("workflow-definitions/by-definition-id/{made}?versionOptions=Latest");
    studio
        .wait_for_api(&by_id, "the definition", |body| body["name"] == "Made here")
        .await;
    studio.page.wait(&super::field("Name")).await;
    studio.fill("Name", "Renamed here").await;
    studio
        .wait_for_api(&by_id, "the new name", |body| body["name"] == "Renamed here")
        .await;
    studio.follow("Definitions").await;
    studio.wait_for_row("Sample 01").await;

    // Duplicate, publish, unpublish.
    studio.row_menu("Sample 01", "Duplicate").await;
    studio.fill("Name", "A copy").await;
    studio.confirm("Ok").await;
    studio.wait_for_row("A copy").await;
    let listed = |is_published: bool| {
        move |body: &Value| {
            let items = body["items"].as_array().unwrap();
            items
                .iter()
                .any(|item| item["name"] == "A copy" && item["isPublished"] == json!(is_published))
        }
    };
    let list = "workflow-definitions?versionOptions=Latest&pageSize=100";
    studio.wait_for_api(list, "a draft", listed(false)).await;
    studio.row_menu("A copy", "Publish").await;
    studio.wait_for_api(list, "a published copy", listed(true)).await;
    studio.row_menu("A copy", "Unpublish").await;
    studio.wait_for_api(list, "an unpublished copy", listed(false)).await;

    // Export, and import of the file.
    studio.row_menu("Sample 02", "Export").await;
    studio.confirm("Export").await;
    let exported: Value = serde_json::from_slice(&studio.downloaded(".json").await).unwrap();
    assert!(
        exported["$schema"].as_str().unwrap().contains("workflow-definition"),
        "{exported}"
    );
    assert_eq!(exported["name"], "Sample 02");
    let mut imported = exported.clone();
    imported["name"] = json!("Brought here");
    imported["definitionId"] = json!("brought-here");
    imported["id"] = json!("brought-here-1");
    let file = studio.file("brought-here.json", imported.to_string());
    studio.page.give_file("input[type=file]", &file).await;
    studio.wait_for_row("Brought here").await;
    studio.screenshot("2-managed").await;

    // Bulk actions.
    bulk(&studio, &["Brought here", "A copy"], "Publish").await;
    studio.wait_for_api(list, "a published copy", listed(true)).await;
    bulk(&studio, &["Brought here", "A copy"], "Unpublish").await;
    studio.wait_for_api(list, "an unpublished copy", listed(false)).await;

    // Both as an archive, which brings back what was deleted.
    bulk(&studio, &["Brought here", "A copy"], "Export").await;
    let archive = studio.file("both.zip", studio.downloaded(".zip").await);
    bulk(&studio, &["Brought here", "A copy"], "Delete").await;
    studio.wait_until_no_row("A copy").await;
    studio.page.give_file("input[type=file]", &archive).await;
    studio.wait_for_row("A copy").await;
    studio.wait_for_row("Brought here").await;
    studio.row_menu("Brought here", "Delete").await;
    studio.confirm("Delete").await;
    studio.wait_until_no_row("Brought here").await;
    assert_eq!(
        studio
            .http
            .get("workflow-definitions/by-definition-id/brought-here")
            .await
            .status,
        404
    );
    studio.assert_no_errors().await;
    node.assert_invariants();
}

/// Ticks rows of the list, opened anew, and chooses a bulk action, which some of them ask to confirm.
async fn bulk(studio: &Studio, rows: &[&str], action: &str) {
    studio.goto("workflows/definitions").await;
    for row in rows {
        studio.wait_for_row(row).await;
        studio.wait_until_quiet().await;
        studio.tick(row).await;
    }
    let changes = studio.page.changes();
    studio.button("Bulk actions").await;
    studio.choose(action).await;
    assert!(studio.has_acted(changes).await, "{action} does nothing");
    if studio.page.eval("!!document.querySelector('.mud-dialog')").await == json!(true) {
        studio.confirm(action).await;
    }
}

async fn sort_by_name(studio: &Studio) {
    let names = studio.column(NAME).await;
    studio.page.click_text("thead .mud-table-sort-label", "Name").await;
    // The first click may keep the order that it had.
    let _ = tokio::time::timeout(std::time::Duration::from_millis(700), async {
        while studio.column(NAME).await == names {
            tokio::time::sleep(std::time::Duration::from_millis(30)).await;
        }
    })
    .await;
}
