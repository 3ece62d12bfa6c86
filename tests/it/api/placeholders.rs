//! Activities of types that a node does not know: designers get placeholders for them, and a save restores the originals.

use mainspring::Engine;
use mainspring::activity::{Activity, ActivityContext, Descriptor, Fault, Step};
use mainspring::definition::WorkflowDefinition;
use mainspring::runtime::VersionOptions;
use serde_json::{Value, json};

use crate::support::single_node::{SingleNode, literal};
use crate::support::{Http, TestDatabase};

/// A type that a program brings.
struct Charge;

impl Activity for Charge {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Shop.Charge").outcome("Paid").outcome("Refused")
    }

    async fn execute(&self, _context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        Ok(Step::Outcomes(vec!["Paid".to_owned()]))
    }
}

/// A node of the program, in the process of the test.
async fn shop(database: &TestDatabase) -> Engine {
    let builder = Engine::builder(database.url()).node_id("shop").activity(Charge);
    builder.start().await.unwrap()
}

fn charge(id: &str) -> Value {
    json!({"id": id, "name": id, "type": "Shop.Charge", "version": 1, "amount": literal("5"), "unknown": [1, {"k": null}],
        "metadata": {"designer": {"position": {"x": 10, "y": 20}}, "displayText": "Charge the card"}})
}

fn shop_flow() -> Value {
    let connection = |source: &str, port: &str, target: &str| json!({"source": {"activity": source, "port": port}, "target": {"activity": target, "port": "In"}});
    let inner = json!({"id": "inner", "type": "Elsa.Sequence", "version": 1, "activities": [charge("nested")]});
    json!({"id": "flow", "type": "Elsa.Flowchart", "version": 1, "activities": [
        charge("charge"), {"id": "line", "type": "Elsa.WriteLine", "version": 1, "text": literal("paid")},
        {"id": "each", "type": "Elsa.ForEach", "version": 1, "items": literal("[]"), "body": inner}],
        "connections": [connection("charge", "Paid", "line"), connection("charge", "Refused", "each")]})
}

fn model(root: &Value) -> Value {
    json!({"definitionId": "shop", "name": "Shop", "root": root})
}

/// The tree without what the server computes.
fn stored(mut root: Value) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.shift_remove("nodeId");
                fields.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    strip(&mut root);
    root
}

/// What is stored of the newest version, as a file has it.
async fn exported(http: &Http) -> Value {
    let file = http.get("workflow-definitions/shop/export").await.expect(200);
    stored(file["root"].clone())
}

/// Both charges are placeholders, with type and reason.
#[track_caller]
fn assert_placeholders(definition: &Value) {
    let (charge, nested) = (
        &definition["root"]["activities"][0],
        &definition["root"]["activities"][2]["body"]["activities"][0],
    );
    for (placeholder, id) in [(charge, "charge"), (nested, "nested")] {
        assert_eq!(placeholder["type"], "Elsa.NotFoundActivity", "{definition}");
        assert_eq!(
            (
                &placeholder["missingTypeName"],
                &placeholder["missingTypeVersion"],
                &placeholder["id"],
                &placeholder["name"]
            ),
            (&json!("Shop.Charge"), &json!(1), &json!(id), &json!(id))
        );
        let metadata = &placeholder["metadata"];
        assert_eq!(
            (
                &metadata["displayText"],
                &metadata["description"],
                &metadata["showDescription"]
            ),
            (
                &json!("Not Found: Shop.Charge"),
                &json!("Could not find activity type Shop.Charge with version 1"),
                &json!(true)
            )
        );
        let original: Value = serde_json::from_str(placeholder["originalActivityJson"].as_str().unwrap()).unwrap();
        assert_eq!(original, self::charge(id));
    }
    assert_eq!(charge["nodeId"], "Workflow1:flow:charge");
    assert_eq!(nested["nodeId"], "Workflow1:flow:each:inner:nested");
    assert_eq!(charge["outcomes"]["expression"]["value"], r#"["Paid","Refused"]"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn designers_get_placeholders_on_every_route_and_files_have_the_original() {
    let node = SingleNode::with_key(&[]).await;
    let http = &node.http;
    let imported = http
        .post("workflow-definitions/import", &model(&shop_flow()))
        .await
        .expect(200);
    assert_placeholders(&imported);
    let saved = http
        .post(
            "workflow-definitions",
            &json!({"model": model(&shop_flow()), "publish": false}),
        )
        .await
        .expect(200);
    assert_placeholders(&saved["workflowDefinition"]);
    let id = saved["workflowDefinition"]["id"].as_str().unwrap().to_owned();
    for path in ["by-definition-id/shop", "shop", &format!("by-id/{id}")] {
        assert_placeholders(&http.get(&format!("workflow-definitions/{path}")).await.expect(200));
    }
    let many = http
        .get(&format!("workflow-definitions/many-by-id?ids={id}"))
        .await
        .expect(200);
    assert_placeholders(&many["items"][0]);
    for route in ["subgraph", "graph"] {
        let root = http
            .get(&format!("workflow-definitions/{route}/{id}"))
            .await
            .expect(200);
        assert_placeholders(&json!({"root": root["activity"]}));
    }
    let inner = format!("workflow-definitions/subgraph/{id}?parentNodeId=Workflow1:flow:each:inner:nested");
    assert_eq!(
        http.get(&inner).await.expect(200)["activity"]["type"],
        "Elsa.NotFoundActivity"
    );
    // What a placeholder has inside is drawn as the placeholder.
    for node_id in [
        "Workflow1:flow:each:inner:nested",
        "Workflow1:flow:each:inner:nested:deep",
    ] {
        let path = format!("workflow-definitions/subgraph/segments/{id}?childNodeId={node_id}");
        let segments = http.get(&path).await.expect(200);
        assert_eq!(
            segments["childNode"]["activity"]["originalActivityJson"],
            json!(charge("nested").to_string())
        );
        assert_eq!(
            segments["container"]["activity"]["activities"][0]["type"],
            "Elsa.NotFoundActivity"
        );
    }

    // It cannot be published, in either way; nothing of it changes.
    for (path, body) in [
        (
            "workflow-definitions",
            json!({"model": saved["workflowDefinition"], "publish": true}),
        ),
        ("workflow-definitions/shop/publish", json!({})),
    ] {
        let refused = http.post(path, &body).await;
        refused.assert_refused(400, "invalid-definition");
        assert!(refused.body.to_string().contains("Shop.Charge"), "{}", refused.body);
    }
    assert_eq!(exported(http).await, shop_flow());
    let by_post = http
        .post("workflow-definitions/shop/export", &json!({}))
        .await
        .expect(200);
    assert_eq!(stored(by_post["root"].clone()), shop_flow());

    // A node of the program publishes it; here it is retracted and rolled back.
    let shop = shop(&node.database).await;
    shop.publish(&"shop".into()).await.unwrap();
    let again = http
        .post("workflow-definitions/shop/publish", &json!({}))
        .await
        .expect(200);
    assert_eq!(again["alreadyPublished"], true);
    assert_placeholders(&again["workflowDefinition"]);
    let retracted = http
        .post("workflow-definitions/shop/retract", &json!({}))
        .await
        .expect(200);
    assert_placeholders(&retracted);
    http.post("workflow-definitions/shop/revert/1", &json!({}))
        .await
        .expect(201);
    assert_eq!(exported(http).await, shop_flow());
    let own = shop.definition(&"shop".into(), VersionOptions::Latest).await.unwrap();
    assert_eq!(stored(own["root"].clone()), shop_flow());
    shop.shutdown().await;
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_save_restores_the_originals_with_what_the_author_changed() {
    let node = SingleNode::with_key(&[]).await;
    let http = &node.http;
    let shop = shop(&node.database).await;
    let definition = WorkflowDefinition::from_value(model(&shop_flow())).unwrap();
    let published = shop.save(definition, true).await.unwrap().definition;
    let version = published["id"].as_str().unwrap();

    // Unchanged, it is the published version: nothing is written.
    let shown = http.get("workflow-definitions/by-definition-id/shop").await.expect(200);
    let save = |model: &Value| json!({"model": model, "publish": false});
    let unchanged = http.post("workflow-definitions", &save(&shown)).await.expect(200);
    assert_eq!(
        (&unchanged["alreadyPublished"], &unchanged["workflowDefinition"]["id"]),
        (&json!(true), &json!(version))
    );

    // One is moved and renamed, one deleted: a draft beside it, with nothing else changed.
    let mut edited = shown.clone();
    let moved = &mut edited["root"]["activities"][0];
    moved["name"] = json!("Charge twice");
    moved["metadata"]["designer"] = json!({"position": {"x": 1.5, "y": 2}, "size": {"width": 400.5, "height": 90}});
    edited["root"]["activities"][2]["body"]["activities"] = json!([]);
    let draft = http.post("workflow-definitions", &save(&edited)).await.expect(200);
    assert_eq!(draft["workflowDefinition"]["version"], 2);
    let mut expected = shop_flow();
    expected["activities"][0]["name"] = json!("Charge twice");
    expected["activities"][0]["metadata"]["designer"]["position"] = json!({"x": 1.5, "y": 2});
    expected["activities"][2]["body"]["activities"] = json!([]);
    assert_eq!(exported(http).await, expected);
    let first = http
        .get("workflow-definitions/shop/export?versionOptions=1")
        .await
        .expect(200);
    assert_eq!(
        (stored(first["root"].clone()), &first["isPublished"]),
        (shop_flow(), &json!(true))
    );

    // It continues where the type is known, whichever node saves.
    let answered = http.get("workflow-definitions/by-definition-id/shop").await.expect(200);
    let saved = shop
        .save(WorkflowDefinition::from_value(answered).unwrap(), true)
        .await
        .unwrap();
    assert_eq!(stored(saved.definition["root"].clone()), expected);
    let charge = &saved.definition["root"]["activities"][0];
    assert_eq!(charge["type"], "Shop.Charge");

    // Other routes restore as well: a file with a placeholder of another server, and a definition in the place of another.
    let of_elsa = json!({"id": "p", "type": "Elsa.NotFoundActivity", "version": 1, "missingTypeName": "Shop.Charge",
        "missingTypeVersion": 1, "originalActivityJson": self::charge("charge").to_string(),
        "metadata": {"displayText": "Not Found: Shop.Charge", "description": "Could not find activity type Shop.Charge with version 1"}});
    let mut restored = self::charge("charge");
    restored["id"] = json!("p");
    restored["metadata"].as_object_mut().unwrap().shift_remove("designer");
    let file = json!({"definitionId": "file", "root": of_elsa}).to_string();
    let form =
        format!("--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f.json\"\r\n\r\n{file}\r\n--b--\r\n");
    let headers = [("content-type", "multipart/form-data; boundary=b")];
    http.upload("workflow-definitions/import-files", &headers, form.into_bytes())
        .await
        .expect(200);
    let put = json!({"model": {"root": of_elsa}, "publish": false});
    let answer = http.put("workflow-definitions/put", &put).await;
    answer.expect(200);
    http.post(
        "workflow-definitions/import",
        &json!({"definitionId": "import", "root": of_elsa}),
    )
    .await
    .expect(200);
    for id in ["file", "put", "import"] {
        let file = http.get(&format!("workflow-definitions/{id}/export")).await.expect(200);
        assert_eq!(stored(file["root"].clone()), restored, "{id}");
    }
    shop.shutdown().await;
    node.assert_invariants();
}

#[tokio::test]
async fn a_placeholder_that_cannot_be_read_stays_and_one_that_is_too_large_is_refused() {
    let node = SingleNode::with_key(&["--body-memory", "16"]).await;
    let http = &node.http;
    let flow = |text: &str| {
        let placeholder =
            json!({"id": "p", "type": "Elsa.NotFoundActivity", "version": 1, "originalActivityJson": text});
        json!({"definitionId": "shop", "root": {"id": "flow", "type": "Elsa.Flowchart", "version": 1, "activities": [placeholder], "connections": []}})
    };
    let import = async |text: &str| http.post("workflow-definitions/import", &flow(text)).await;
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for text in ["", "{", "\"half", deep.as_str()] {
        let imported = import(text).await.expect(200);
        assert_eq!(imported["root"]["activities"][0]["originalActivityJson"], text);
        let stays = exported(http).await["activities"][0].clone();
        assert_eq!(stays, flow(text)["root"]["activities"][0]);
        let publish = http.post("workflow-definitions/shop/publish", &json!({})).await;
        publish.assert_refused(400, "invalid-definition");
    }
    // Within the limits of a definition alone, and not where it is.
    let nested = format!("{}{}{}", "{\"body\":".repeat(126), "{}", "}".repeat(126));
    import(&nested).await.assert_refused(400, "nesting-too-deep");
    import(r#"{"type": "X", "text": "\u0000"}"#)
        .await
        .assert_refused(400, "invalid-text");
    // The text is small, its values are not.
    let values = format!("[{}0]", "0,".repeat(200_000));
    import(&values).await.assert_refused(413, "too-many-values");
    // Many that are small each count together.
    let many: Vec<Value> = (0..100)
        .map(|_| flow(&format!("[{}0]", "0,".repeat(10_000)))["root"]["activities"][0].clone())
        .collect();
    let mut crowded = flow("");
    crowded["root"]["activities"] = many.into();
    http.post("workflow-definitions/import", &crowded)
        .await
        .assert_refused(413, "too-many-values");
    node.assert_invariants();
}

#[tokio::test]
async fn a_workflow_as_an_activity_is_a_placeholder_while_designers_do_not_know_it() {
    let node = SingleNode::with_key(&[]).await;
    let http = &node.http;
    let reference = json!({"id": "greet", "type": "Greeter", "version": 7, "workflowDefinitionId": "greeter", "workflowDefinitionVersionId": "elsewhere"});
    let root =
        json!({"id": "flow", "type": "Elsa.Flowchart", "version": 1, "activities": [reference], "connections": []});
    http.post("workflow-definitions/import", &model(&root))
        .await
        .expect(200);
    let shown = async || {
        let read = http.get("workflow-definitions/by-definition-id/shop").await.expect(200);
        read["root"]["activities"][0].clone()
    };
    assert_eq!(shown().await["missingTypeName"], "Greeter");
    let greeter = json!({"definitionId": "greeter", "name": "Greeter", "options": {"usableAsActivity": true},
        "root": {"id": "g", "type": "Elsa.Flowchart", "version": 1, "activities": [charge("inside")], "connections": []}});
    http.post("workflow-definitions/import", &greeter).await.expect(200);
    let known = shown().await;
    assert_eq!((&known["type"], &known["version"]), (&json!("Greeter"), &json!(1)));
    // Saved as it was read, it names what it named.
    let read = http.get("workflow-definitions/by-definition-id/shop").await.expect(200);
    let id = read["id"].as_str().unwrap();
    http.post("workflow-definitions", &json!({"model": read, "publish": false}))
        .await
        .expect(200);
    assert_eq!(exported(http).await, root);
    // And designers see into it, where an unknown type is a placeholder, too.
    let path = format!("workflow-definitions/subgraph/{id}?parentNodeId=Workflow1:flow:greet");
    let inside = http.get(&path).await.expect(200);
    let drawn = &inside["activity"]["root"]["root"]["activities"][0];
    assert_eq!(
        (&drawn["type"], &drawn["nodeId"]),
        (
            &json!("Elsa.NotFoundActivity"),
            &json!("Workflow1:flow:greet:Workflow1:g:inside")
        )
    );
    http.delete("workflow-definitions/greeter").await.expect(204);
    assert_eq!(shown().await["missingTypeName"], "Greeter");
    assert_eq!(exported(http).await, root);
    node.assert_invariants();
}
