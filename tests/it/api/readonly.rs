//! Definitions that are read-only or belong to the system, and what a save takes of a definition.

use serde_json::{Value, json};

use crate::support::single_node::{SingleNode, literal};
use crate::support::{Answer, Http, assert_fields};

fn model(id: &str, text: &str) -> Value {
    json!({"definitionId": id, "name": id, "root": {"id": "Line", "type": "Elsa.WriteLine", "text": literal(text)}})
}

async fn save(http: &Http, model: &Value, publish: bool) -> Answer {
    let body = json!({"model": model, "publish": publish});
    http.post("workflow-definitions", &body).await
}

async fn import(http: &Http, model: &Value) -> Answer {
    http.post("workflow-definitions/import", model).await
}

async fn latest(http: &Http, id: &str) -> Value {
    let path = format!("workflow-definitions/by-definition-id/{id}");
    http.get(&path).await.expect(200)
}

fn refused(answer: &Answer) {
    answer.assert_refused(403, "definition-readonly");
}

/// Sends one file of a form.
async fn import_file(http: &Http, files: &[&Value]) -> Answer {
    let mut body = String::new();
    for (number, file) in files.iter().enumerate() {
        let head = format!("Content-Disposition: form-data; name=\"files\"; filename=\"{number}.json\"");
        body.push_str(&format!(
            "--edge\r\n{head}\r\nContent-Type: application/json\r\n\r\n{file}\r\n"
        ));
    }
    body.push_str("--edge--\r\n");
    let headers = [("Content-Type", "multipart/form-data; boundary=edge")];
    let path = "workflow-definitions/import-files";
    http.upload(path, &headers, body.into_bytes()).await
}

#[tokio::test]
async fn what_is_readonly_is_changed_by_no_client() {
    let node = SingleNode::with_key(&[]).await;
    let http = &node.http;
    // Only an import makes it read-only: a save ignores the flags, and nothing from outside belongs to the system.
    let mut flagged = model("plain", "a");
    (flagged["isReadonly"], flagged["isSystem"]) = (json!(true), json!(true));
    let saved = save(http, &flagged, true).await.expect(200);
    assert_fields!(saved["workflowDefinition"], {"isReadonly": false, "isSystem": false});
    let mut locked = model("locked", "a");
    (locked["isReadonly"], locked["isSystem"]) = (json!(true), json!(true));
    save(http, &model("locked", "zero"), true).await.expect(200);
    let draft = import(http, &locked).await.expect(200);
    assert_fields!(draft, {"isReadonly": true, "isSystem": false, "version": 2, "isPublished": false});

    let before = latest(http, "locked").await;
    let own = "workflow-definitions/locked";
    let none = json!({});
    refused(&save(http, &model("locked", "b"), false).await);
    refused(&save(http, &model("locked", "b"), true).await);
    let put = json!({"model": model("locked", "b"), "publish": false});
    refused(&http.put(own, &put).await);
    refused(&import(http, &model("locked", "b")).await);
    refused(&http.post(&format!("{own}/import"), &model("locked", "b")).await);
    refused(&http.post(&format!("{own}/publish"), &none).await);
    refused(&http.post(&format!("{own}/update-references"), &none).await);
    refused(&http.post(&format!("{own}/revert/2"), &none).await);
    refused(&http.post(&format!("{own}/revert/1"), &none).await);
    refused(&http.delete(own).await);
    refused(&http.delete(&format!("{own}/version/2")).await);
    // The files before it are not imported, either.
    let answer = import_file(http, &[&model("first", "a"), &model("locked", "b")]).await;
    refused(&answer);
    assert!(answer.body["errors"]["1.json"].is_array(), "{}", answer.body);
    http.get("workflow-definitions/first")
        .await
        .assert_refused(404, "definition-not-found");
    assert_eq!(latest(http, "locked").await, before);

    // In bulk it is skipped, and the others are done.
    let bulk = async |action: &str| {
        let path = format!("bulk-actions/{action}/workflow-definitions/by-definition-ids");
        let ids = json!({"definitionIds": ["locked", "other", "none"]});
        http.post(&path, &ids).await.expect(200)
    };
    save(http, &model("other", "a"), false).await.expect(200);
    let published = bulk("publish").await;
    assert_fields!(published, {"published": ["other"], "skipped": ["locked"], "notFound": ["none"], "failed": []});
    // The published version was never read-only.
    let retracted = bulk("retract").await;
    assert_fields!(retracted, {"retracted": ["locked", "other"], "skipped": [], "notFound": ["none"]});
    refused(&http.post(&format!("{own}/retract"), &none).await);
    assert_fields!(bulk("retract").await, {"skipped": ["locked"], "alreadyRetracted": ["other"]});
    let path = "bulk-actions/delete/workflow-definitions/by-definition-id";
    let deleted = http.post(path, &json!({"definitionIds": ["locked", "other"]})).await;
    assert_eq!(deleted.expect(200)["deleted"], 1);
    assert_fields!(latest(http, "locked").await, {"id": before["id"], "isReadonly": true});

    // By its own id a version can be deleted, which is the way to get rid of it.
    http.delete(&format!("{own}/version/1")).await.expect(200);
    let path = format!("workflow-definition-versions/{}", before["id"].as_str().unwrap());
    http.delete(&path).await.expect(204);
    http.get(own).await.assert_refused(404, "definition-not-found");
    node.assert_invariants();
}

#[tokio::test]
async fn a_batch_imports_all_of_a_readonly_definition_and_can_be_imported_again() {
    let node = SingleNode::with_key(&[]).await;
    let http = &node.http;
    let flagged = |id: &str, text: &str, is_published: bool| {
        let mut file = model(id, text);
        (file["isReadonly"], file["isPublished"]) = (json!(true), json!(is_published));
        file
    };
    let (one, two, three) = (
        flagged("own", "one", false),
        flagged("own", "two", true),
        flagged("own", "three", true),
    );
    // Whatever a file says, it becomes a draft.
    let files = [&one, &two, &three];
    import_file(http, &files).await.expect(200);
    let imported = latest(http, "own").await;
    assert_fields!(imported, {"version": 1, "isPublished": false, "isReadonly": true});
    assert_eq!(imported["root"]["text"], literal("three"));
    // The same files are imported again, and those that are saved stay as they are.
    for _ in 0..2 {
        let done = import_file(http, &[&one, &two, &three, &model("other", "a")]).await;
        let done = done.expect(200);
        assert_eq!(done["count"], 4, "{done}");
        let done = done["files"].as_array().unwrap();
        assert!(done.iter().all(|file| file["isImported"] == true), "{done:?}");
    }
    assert_eq!(latest(http, "own").await, imported);
    // Any other last file is a change.
    refused(&import_file(http, &[&three, &two]).await);
    refused(&import_file(http, &[&one]).await);
    // So it is with a file on its own.
    assert_eq!(import(http, &three).await.expect(200)["id"], imported["id"]);
    refused(&import(http, &two).await);
    assert_eq!(latest(http, "own").await, imported);
    node.assert_invariants();
}

#[tokio::test]
async fn a_readonly_definition_is_published_once() {
    let node = SingleNode::with_key(&[]).await;
    let http = &node.http;
    let flagged = |id: &str| {
        let mut file = model(id, "a");
        (file["isReadonly"], file["isPublished"]) = (json!(true), json!(true));
        file
    };
    let mut part = flagged("Zpart");
    part["options"] = json!({"usableAsActivity": true});
    let mut consumer = flagged("a-consumer");
    consumer["root"] = json!({"id": "Use", "type": "Zpart", "version": 1, "workflowDefinitionId": "Zpart"});
    import_file(http, &[&consumer, &part, &flagged("single"), &flagged("many")])
        .await
        .expect(200);
    let publish = async |id: &str| {
        http.post(&format!("workflow-definitions/{id}/publish"), &json!({}))
            .await
    };
    for id in ["Zpart", "a-consumer", "single"] {
        assert_fields!(latest(http, id).await, {"isPublished": false});
        publish(id).await.expect(200);
        assert_fields!(latest(http, id).await, {"version": 1, "isPublished": true, "isReadonly": true});
        refused(&publish(id).await);
    }
    let path = "bulk-actions/publish/workflow-definitions/by-definition-ids";
    let ids = json!({"definitionIds": ["single", "many"]});
    let published = http.post(path, &ids).await.expect(200);
    assert_fields!(published, {"published": ["many"], "alreadyPublished": ["single"], "skipped": []});
    let executed = http.execute("a-consumer", &json!({})).await;
    assert_eq!(executed["workflowState"]["subStatus"], "Finished");
    // A retry of the import changes nothing of what is published since.
    import(http, &flagged("single")).await.expect(200);
    import_file(http, &[&consumer, &part]).await.expect(200);
    for id in ["Zpart", "a-consumer", "single"] {
        assert_fields!(latest(http, id).await, {"version": 1, "isPublished": true});
    }
    node.assert_invariants();
}

#[tokio::test]
async fn what_belongs_to_the_system_is_changed_by_no_client() {
    let node = SingleNode::with_key(&[]).await;
    let http = &node.http;
    let part = |text: &str| {
        let mut part = model("Part", text);
        part["options"] = json!({"usableAsActivity": true, "autoUpdateConsumingWorkflows": true});
        part
    };
    save(http, &part("a"), true).await.expect(200);
    let mut consumer = model("system", "a");
    consumer["root"] = json!({"id": "Use", "type": "Part", "version": 1, "workflowDefinitionId": "Part"});
    save(http, &consumer, true).await.expect(200);
    // As a program saves it.
    let client = node.database.connect().await;
    let system = "UPDATE mainspring.definition SET is_system = true,
                      body = jsonb_set(body::jsonb, '{isSystem}', 'true')::json
                  WHERE definition_id = 'system'";
    assert_eq!(client.execute(system, &[]).await.unwrap(), 1);
    refused(&save(http, &model("system", "b"), true).await);
    refused(&import(http, &model("system", "b")).await);
    refused(&http.post("workflow-definitions/system/publish", &json!({})).await);
    refused(&http.post("workflow-definitions/system/retract", &json!({})).await);
    refused(&http.delete("workflow-definitions/system").await);
    let id = latest(http, "system").await["id"].clone();
    refused(
        &http
            .delete(&format!("workflow-definition-versions/{}", id.as_str().unwrap()))
            .await,
    );
    for (by, ids) in [
        ("by-definition-id", json!({"definitionIds": ["system"]})),
        ("by-id", json!({"ids": [id]})),
    ] {
        let path = format!("bulk-actions/delete/workflow-definitions/{by}");
        assert_eq!(http.post(&path, &ids).await.expect(200)["deleted"], 0, "{by}");
    }
    // What it uses updates other consumers, and not this one.
    let mut other = consumer.clone();
    other["definitionId"] = json!("other");
    save(http, &other, true).await.expect(200);
    let published = save(http, &part("b"), true).await.expect(200);
    assert_eq!(published["consumingWorkflowCount"], 1, "{published}");
    assert_fields!(latest(http, "other").await, {"version": 2});
    assert_fields!(latest(http, "system").await, {"version": 1, "isPublished": true});
    node.assert_invariants();
}

#[tokio::test]
async fn a_new_definition_begins_at_one_with_a_sequence() {
    let node = SingleNode::with_key(&[]).await;
    let http = &node.http;
    let mut sent = model("new", "a");
    (sent["id"], sent["version"]) = (json!("mine"), json!(7));
    (sent["name"], sent["description"]) = (json!("  New one\t"), json!("\n what it does "));
    let saved = save(http, &sent, false).await.expect(200)["workflowDefinition"].clone();
    assert_fields!(saved, {"version": 1, "name": "New one", "description": "what it does"});
    assert_ne!(saved["id"], "mine");
    // A file keeps both, as instances may name them.
    (sent["definitionId"], sent["id"]) = (json!("file"), json!("of-file"));
    let imported = import(http, &sent).await.expect(200);
    assert_fields!(imported, {"id": "of-file", "version": 7, "name": "New one"});
    let mut numbered = model("numbered", "a");
    numbered["version"] = json!(7);
    assert_fields!(import(http, &numbered).await.expect(200), {"version": 7});
    numbered["definitionId"] = json!("in-batch");
    import_file(http, &[&numbered]).await.expect(200);
    assert_fields!(latest(http, "in-batch").await, {"version": 7});

    for (path, body) in [
        (
            "workflow-definitions",
            json!({"model": {"definitionId": "empty"}, "publish": true}),
        ),
        (
            "workflow-definitions/import",
            json!({"definitionId": "empty-file", "root": null}),
        ),
    ] {
        http.post(path, &body).await.expect(200);
    }
    http.post("workflow-definitions/empty-file/publish", &json!({}))
        .await
        .expect(200);
    for id in ["empty", "empty-file"] {
        let root = latest(http, id).await["root"].clone();
        assert_fields!(root, {"type": "Elsa.Sequence", "activities": [], "nodeId": "Workflow1:Sequence1"});
        let executed = http.execute(id, &json!({})).await;
        assert_eq!(executed["workflowState"]["subStatus"], "Finished");
    }

    // All versions, the newest first, whole.
    save(http, &model("new", "b"), true).await.expect(200);
    save(http, &model("new", "c"), true).await.expect(200);
    let versions = http.get("workflow-definitions/new/versions").await.expect(200);
    let versions = versions.as_array().unwrap();
    assert_eq!(versions.len(), 2, "{versions:?}");
    for (version, (number, text)) in versions.iter().zip([(2, "c"), (1, "b")]) {
        assert_eq!(version["version"], number);
        assert_eq!(version["root"]["text"], literal(text));
        assert_eq!(version["root"]["nodeId"], "Workflow1:Line");
    }
    let second = http.get("workflow-definitions/new/versions?page=1&pageSize=1").await;
    assert_eq!(second.expect(200)[0]["version"], 1);
    http.get("workflow-definitions/none/versions")
        .await
        .assert_refused(404, "definition-not-found");
    node.assert_invariants();
}
