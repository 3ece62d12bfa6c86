//! A definition with activities of types that the node does not know is drawn, and loses nothing.

use serde_json::{Value, json};

use super::{PUBLISH, Studio, line, move_activity, node, on_canvas, on_flowchart, saves_answered};
use crate::support::Http;

const FILE: &str = "workflow-definitions/shop/export";

fn shop() -> Value {
    let charge = json!({"id": "charge", "name": "Take money", "type": "Shop.Charge", "version": 3, "amount": {"typeName": "Int32", "expression": {"type": "Literal", "value": "5"}},
        "unknown": {"k": [9_007_199_254_740_993_i64]}, "metadata": {"designer": {"position": {"x": 100, "y": 100}}}});
    let query = json!({"id": "query", "type": "Elsa.SqlQuery", "version": 1, "metadata": {"designer": {"position": {"x": 100, "y": 300}}}});
    let guard = json!({"id": "guard", "name": "guard", "type": "Elsa.If", "version": 1, "then": {"id": "inside", "type": "Shop.Inside", "version": 1},
        "metadata": {"designer": {"position": {"x": 700, "y": 100}}}});
    let mut say = line("say", "paid");
    say["version"] = json!(1);
    say["metadata"]["designer"]["position"] = json!({"x": 700, "y": 400});
    let mut shop = on_flowchart("shop", "Shop", Value::Null);
    shop["root"]["version"] = json!(1);
    shop["root"]["activities"] = json!([charge, query, guard, say]);
    shop["root"]["connections"] = json!([
        {"source": {"activity": "charge", "port": "Paid"}, "target": {"activity": "guard", "port": "In"}},
        {"source": {"activity": "guard", "port": "Done"}, "target": {"activity": "say", "port": "In"}}
    ]);
    shop
}

/// An activity as it is stored.
fn stored(file: &Value, id: &str) -> Value {
    let activities = file["root"]["activities"].as_array().unwrap().iter();
    let mut found = activities
        .clone()
        .find(|it| it["id"] == id)
        .cloned()
        .unwrap_or_default();
    if let Some(fields) = found.as_object_mut() {
        fields.shift_remove("nodeId");
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn activities_of_unknown_types_are_drawn_and_kept_and_one_that_is_deleted_goes() {
    let node = node(&[]).await;
    let http: &Http = &node.http;
    http.post("workflow-definitions/import", &shop()).await.expect(200);
    let studio = Studio::signed_in_at(
        &format!("http://{}", node.address),
        "placeholders",
        "workflows/definitions/shop/edit",
    )
    .await;
    // Type and reason are on the canvas, also inside a port, and the connections begin at their outcomes.
    for text in [
        "Could not find activity type Shop.Charge with version 3",
        "Not Found: Elsa.SqlQuery",
        "Could not find activity type Elsa.SqlQuery with version 1",
        "Not Found: Shop.Inside",
        "Paid",
    ] {
        studio.page.wait(&on_canvas(text)).await;
    }
    studio.page.wait(&on_canvas("say")).await;
    assert_eq!(
        studio.page.eval("document.querySelectorAll('.x6-edge').length").await,
        json!(2)
    );
    studio.screenshot("1-drawn").await;

    // A publish is refused with the types, and changes nothing.
    studio.page.click(PUBLISH).await;
    studio.page.wait_for_text("Shop.Charge").await;
    studio.page.wait_for_text("is of an unknown type: Shop.Charge").await;
    assert_eq!(saves_answered(&studio, 400), 1);
    let file = http.get(FILE).await.expect(200);
    assert_eq!((&file["isPublished"], &file["version"]), (&json!(false), &json!(1)));
    for (activity, id) in [(0, "charge"), (1, "query"), (3, "say")] {
        assert_eq!(stored(&file, id), shop()["root"]["activities"][activity], "{id}");
    }
    studio.screenshot("2-refused").await;
    // The browser reports the answer.
    assert_eq!(studio.page.take_console().len(), 1);

    // One is moved: the original is moved, and nothing else of it changes.
    move_activity(&studio, &on_canvas("Not Found: Shop.Charge")).await;
    let file = http.get(FILE).await.expect(200);
    let mut moved = stored(&file, "charge");
    let position = moved["metadata"]["designer"]["position"].clone();
    assert_ne!(position, json!({"x": 100, "y": 100}));
    moved["metadata"]["designer"]["position"] = json!({"x": 100, "y": 100});
    assert_eq!(moved, shop()["root"]["activities"][0]);
    let inside = stored(&file, "guard")["then"].clone();
    assert_eq!(
        inside,
        json!({"id": "inside", "type": "Shop.Inside", "version": 1, "nodeId": "Workflow1:flow:guard:inside"})
    );

    // Another one is deleted, and only that.
    studio.page.click(&on_canvas("Not Found: Elsa.SqlQuery")).await;
    studio.page.key("Delete", 46, 0).await;
    studio
        .page
        .wait(&format!("!({})", on_canvas("Not Found: Elsa.SqlQuery")))
        .await;
    let latest = "workflow-definitions/by-definition-id/shop?versionOptions=Latest";
    studio
        .wait_for_api(latest, "three activities", |body| {
            body["root"]["activities"].as_array().unwrap().len() == 3
        })
        .await;
    let file = http.get(FILE).await.expect(200);
    assert_eq!(stored(&file, "query"), Value::Null);
    assert_eq!(
        stored(&file, "charge")["unknown"],
        json!({"k": [9_007_199_254_740_993_i64]})
    );
    assert_eq!(file["root"]["connections"].as_array().unwrap().len(), 2);
    studio.assert_no_errors().await;
    node.assert_invariants();
}
