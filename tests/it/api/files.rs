//! Definitions as files: export, import, and files that are no definitions.

use std::io::Write;

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::single_node::{SingleNode, literal};
use crate::support::{Answer, Http};

const FORM: &str = "multipart/form-data; boundary=b";

fn model(id: &str, name: &str) -> Value {
    json!({"definitionId": id, "name": name, "root": {"id": "Line", "type": "Elsa.WriteLine", "text": literal(name)}})
}

/// A form with these files.
fn form(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, content) in files {
        let head = format!("--b\r\nContent-Disposition: form-data; name=\"files\"; filename=\"{name}\"\r\n\r\n");
        body.extend([head.as_bytes(), content, b"\r\n"].concat());
    }
    body.extend(b"--b--\r\n");
    body
}

async fn import(http: &Http, files: &[(&str, &[u8])]) -> Answer {
    let path = "workflow-definitions/import-files";
    http.upload(path, &[("content-type", FORM)], form(files)).await
}

async fn count(http: &Http) -> Value {
    http.get("workflow-definitions/query/count").await.expect(200)["count"].clone()
}

/// A zip archive; the declared size of each file is given.
fn zip(files: &[(&str, &[u8], usize)]) -> Vec<u8> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for (name, content, declared) in files {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(content).unwrap();
        let packed = encoder.finish().unwrap();
        let mut crc = Crc::new();
        crc.update(content);
        let mut common = vec![20, 0, 0, 8, 8, 0, 0, 0, 0x21, 0];
        for number in [crc.sum(), packed.len() as u32, *declared as u32, name.len() as u32] {
            common.extend(number.to_le_bytes());
        }
        let at = archive.len() as u32;
        archive.extend([b"PK\x03\x04", common.as_slice(), name.as_bytes(), &packed].concat());
        directory.extend(
            [
                b"PK\x01\x02\x14\x00",
                common.as_slice(),
                &[0; 10],
                &at.to_le_bytes(),
                name.as_bytes(),
            ]
            .concat(),
        );
    }
    let (count, at) = ((files.len() as u16).to_le_bytes(), (archive.len() as u32).to_le_bytes());
    let size = (directory.len() as u32).to_le_bytes();
    let end = [&b"PK\x05\x06\0\0\0\0"[..], &count, &count, &size, &at, &[0, 0]].concat();
    [archive, directory, end].concat()
}

fn entry<'a>(name: &'a str, content: &'a [u8]) -> (&'a str, &'a [u8], usize) {
    (name, content, content.len())
}

#[tokio::test]
async fn what_is_exported_can_be_imported() {
    let node = SingleNode::with_key(&[]).await;
    let http = &node.http;
    let mut ids = Vec::new();
    for (id, name) in [("a", "Order Shipped"), ("b", "../../etc"), ("ü", "größe")] {
        let saved = http
            .post(
                "workflow-definitions",
                &json!({"model": model(id, name), "publish": true}),
            )
            .await
            .expect(200);
        ids.push(saved["workflowDefinition"]["id"].as_str().unwrap().to_owned());
    }
    let path = "workflow-definitions/a/export";
    let query = "versionOptions=Latest&includeConsumingWorkflows=False";
    let (status, headers, file) = http.download(&format!("{path}?{query}"), None).await;
    assert_eq!(
        (status, &headers["content-type"]),
        (200, &"application/json".parse().unwrap())
    );
    let name = format!(
        "attachment; filename=workflow-definition-order-shipped-a-{}.json",
        ids[0]
    );
    assert_eq!(headers["content-disposition"], name.as_str());
    let text = String::from_utf8(file.clone()).unwrap();
    let schema = "https://elsaworkflows.io/schemas/workflow-definition/v3.0.0/schema.json";
    assert!(text.starts_with(&format!("{{\"$schema\":\"{schema}\"")), "{text}");
    let exported: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&exported["id"], &exported["isPublished"]),
        (&json!(ids[0]), &json!(true))
    );
    assert_eq!(exported["root"]["text"], literal("Order Shipped"));
    assert!(exported.get("links").is_none());
    let by_post = http.download(path, Some(&json!({"versionOptions": "1"}))).await;
    assert_eq!((by_post.0, by_post.2), (200, file.clone()));
    for (definition, query) in [("none", ""), ("a", "versionOptions=7"), ("a", "versionOptions=Draft")] {
        let path = format!("workflow-definitions/{definition}/export?{query}");
        http.get(&path).await.assert_refused(404, "definition-not-found");
    }
    http.get("workflow-definitions/a/export?versionOptions=newest")
        .await
        .assert_refused(400, "invalid-field");

    let bulk = "bulk-actions/export/workflow-definitions";
    let wanted = json!({"ids": [ids[1], ids[0], ids[2], "none", ids[0]], "includeConsumingWorkflows": true});
    let (status, headers, archive) = http.download(bulk, Some(&wanted)).await;
    assert_eq!(
        (status, &headers["content-type"]),
        (200, &"application/zip".parse().unwrap())
    );
    assert_eq!(
        headers["content-disposition"],
        "attachment; filename=workflow-definitions.zip"
    );
    let (_, _, again) = http
        .download(&format!("{bulk}?ids={}&ids={}&ids={}", ids[0], ids[1], ids[2]), None)
        .await;
    assert_eq!(again, archive);
    for nothing in [json!({}), json!({"ids": []}), json!({"ids": ["none"]})] {
        http.post(bulk, &nothing).await.expect(204);
    }
    let many: Vec<String> = (0..1_001).map(|number| number.to_string()).collect();
    http.post(bulk, &json!({"ids": many}))
        .await
        .assert_refused(400, "invalid-field");
    http.post(bulk, &json!({"ids": "a"}))
        .await
        .assert_refused(400, "invalid-field");

    // What is published and comes back unchanged makes no draft.
    let imported = import(http, &[("a.json", &file), ("all.zip", &archive)])
        .await
        .expect(200);
    assert_eq!(imported["count"], 4);
    let versions = http
        .get("workflow-definitions?versionOptions=AllVersions")
        .await
        .expect(200);
    assert_eq!(versions["totalCount"], 3);
    let other = SingleNode::with_key(&[]).await;
    assert_eq!(
        import(&other.http, &[("all.zip", &archive)]).await.expect(200)["count"],
        3
    );
    let read = other
        .http
        .get("workflow-definitions/by-definition-id/b")
        .await
        .expect(200);
    assert_eq!(
        (&read["name"], &read["isPublished"]),
        (&json!("../../etc"), &json!(false))
    );
    assert!(read.get("$schema").is_none());
    node.assert_invariants();
    other.assert_invariants();
}

#[tokio::test]
async fn all_files_are_imported_or_none() {
    let node = SingleNode::with_key(&[]).await;
    let http = &node.http;
    let (one, two) = (model("one", "1").to_string(), model("two", "2").to_string());
    let (one, two) = (one.as_bytes(), two.as_bytes());
    let long = json!({"definitionId": "x".repeat(256), "root": {"type": "Elsa.WriteLine"}}).to_string();
    let wrong = json!({"definitionId": "w", "root": 1}).to_string();
    let big = vec![b' '; 11 << 20];
    let bomb = zip(&[entry("bomb.json", &big)]);
    let liar = zip(&[("bomb.json", &big, 100)]);
    let fills = vec![b' '; 10_000_000];
    let names: Vec<String> = (0..1_001).map(|number| format!("{number}.json")).collect();
    let parts: Vec<_> = names[..7].iter().map(|name| entry(name, &fills)).collect();
    let (heavy, crowded) = (
        zip(&parts),
        zip(&names.iter().map(|name| entry(name, b"1")).collect::<Vec<_>>()),
    );
    let mut cut = zip(&[entry("two.json", two)]);
    cut.truncate(cut.len() - 30);
    let nested = zip(&[entry("deep/../../bad.json", b"{\"root\": ")]);
    for (name, content, named, status, code) in [
        ("cut.json", &b"{"[..], "cut.json", 400, "invalid-json"),
        ("empty.zip", b"", "empty.zip", 400, "invalid-file"),
        ("text.txt", b"hello", "text.txt", 400, "invalid-file"),
        ("no.zip", b"PK\x03\x04 no archive", "no.zip", 400, "invalid-file"),
        ("cut.zip", &cut, "cut.zip", 400, "invalid-file"),
        (
            "nul.json",
            b"{\"root\": {\"id\": \"\\u0000\"}}",
            "nul.json",
            400,
            "invalid-text",
        ),
        ("latin.json", b"{\"root\": \"\xff\"}", "latin.json", 400, "invalid-text"),
        (
            "../../long.json",
            long.as_bytes(),
            "long.json",
            400,
            "invalid-definition-id",
        ),
        ("wrong.json", wrong.as_bytes(), "wrong.json", 400, "invalid-definition"),
        ("nested.zip", &nested, "nested.zip/bad.json", 400, "invalid-json"),
        ("bomb.zip", &bomb, "bomb.zip/bomb.json", 413, "body-too-large"),
        ("liar.zip", &liar, "liar.zip/bomb.json", 400, "invalid-file"),
        ("heavy.zip", &heavy, "heavy.zip/6.json", 413, "body-too-large"),
        ("crowded.zip", &crowded, "crowded.zip", 413, "body-too-large"),
    ] {
        let refused = import(http, &[("one.json", one), (name, content), ("two.json", two)]).await;
        refused.assert_refused(status, code);
        assert!(refused.body["errors"].get(named).is_some(), "{}", refused.body);
        assert!(
            refused.body["message"].as_str().unwrap().starts_with(named),
            "{}",
            refused.body
        );
    }
    assert_eq!(count(http).await, 0);

    // What is no workflow is dropped.
    let mixed = zip(&[
        entry("folder/", b""),
        entry("../../one.JSON", one),
        entry("package.json", b"{\"name\": \"x\"}"),
        entry("list.json", b"[1]"),
        entry("readme.txt", b"hello"),
        entry("empty.json", b""),
    ]);
    let files: [(&str, &[u8]); 3] = [("mixed", &mixed), ("two.json", two), ("none.json", b"{}")];
    let imported = import(http, &files).await.expect(200);
    assert_eq!(imported["count"], 2);
    let became: Vec<(&str, bool)> = imported["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| (file["name"].as_str().unwrap(), file["isImported"] == true))
        .collect();
    assert_eq!(became[..2], [("mixed/one.JSON", true), ("two.json", true)]);
    assert_eq!(
        became[2..],
        [
            ("mixed/package.json", false),
            ("mixed/list.json", false),
            ("mixed/empty.json", false),
            ("none.json", false)
        ]
    );
    assert_eq!(imported["files"][0]["definitionId"], "one");
    assert!(imported["files"][2]["reason"].as_str().unwrap().contains("no workflow"));
    assert_eq!(count(http).await, 2);
    let none = import(http, &[("none.json", b"null")]).await;
    none.assert_refused(400, "invalid-file");
    assert!(none.body["errors"].get("none.json").is_some(), "{}", none.body);
    // Schema and links of any model are dropped.
    let schema = json!({"definitionId": "s", "$schema": "x", "links": [1], "root": {"type": "Elsa.WriteLine"}});
    let saved = http.post("workflow-definitions/import", &schema).await.expect(200);
    assert!(
        saved.get("$schema").is_none() && saved["links"][0].is_object(),
        "{saved}"
    );
    node.assert_invariants();
}

#[tokio::test]
async fn what_is_no_form_is_refused() {
    let node = SingleNode::start(&[]).await;
    let http = &node.http;
    let path = "workflow-definitions/import-files";
    let one = model("one", "1").to_string();
    let right = form(&[("one.json", one.as_bytes())]);
    let key = ("x-requested-with", "it");
    for (headers, body, status, code) in [
        (vec![key], right.clone(), 415, "form-required"),
        (
            vec![key, ("content-type", "application/json")],
            b"{}".to_vec(),
            415,
            "form-required",
        ),
        (
            vec![key, ("content-type", "multipart/form-data")],
            right.clone(),
            415,
            "form-required",
        ),
        (
            vec![key, ("content-type", FORM), ("content-encoding", "gzip")],
            right.clone(),
            415,
            "unsupported-encoding",
        ),
        (
            vec![key, ("content-type", FORM)],
            b"nonsense".to_vec(),
            400,
            "invalid-form",
        ),
        (
            vec![key, ("content-type", FORM)],
            right[..60].to_vec(),
            400,
            "invalid-form",
        ),
        (vec![key, ("content-type", FORM)], form(&[]), 400, "missing-field"),
        (
            vec![key, ("content-type", FORM)],
            vec![b'-'; 10_485_761],
            413,
            "body-too-large",
        ),
        // A page of another origin can send a form.
        (
            vec![("content-type", FORM), ("origin", "https://evil.example")],
            right.clone(),
            403,
            "cross-site-request",
        ),
    ] {
        http.upload(path, &headers, body).await.assert_refused(status, code);
    }
    let plain = crate::support::Http::new(&format!("http://{}", node.address));
    let sent = plain.upload(path, &[("content-type", FORM)], right.clone()).await;
    sent.assert_refused(403, "header-required");
    assert_eq!(count(http).await, 0);
    let sent = plain.upload(path, &[("content-type", FORM), key], right).await;
    assert_eq!(sent.expect(200)["count"], 1);
}

/// As Elsa 2's designer exports it.
fn of_elsa_2() -> Value {
    json!({"$id": "1", "definitionId": "old", "versionId": "v", "name": "Orders", "version": 1,
        "variables": {"$id": "2", "data": {}}, "persistenceBehavior": "WorkflowBurst", "isPublished": true,
        "activities": [
            {"$id": "3", "activityId": "a1", "type": "HttpEndpoint", "properties": [], "propertyStorageProviders": {}},
            {"$id": "4", "activityId": "a2", "type": "WriteLine", "properties": [], "propertyStorageProviders": {}}],
        "connections": [{"sourceActivityId": "a1", "targetActivityId": "a2", "outcome": "Done"}]})
}

#[tokio::test]
async fn a_definition_of_elsa_2_is_named_on_every_route() {
    let node = SingleNode::with_key(&[]).await;
    let http = &node.http;
    let old = of_elsa_2();
    let capital = json!({"DefinitionId": "old", "Activities": [{"ActivityId": "a1", "Type": "HttpEndpoint"}],
        "Connections": [{"SourceActivityId": "a1", "TargetActivityId": "a1", "Outcome": "Done"}]});
    let mut list = old.clone();
    list["variables"] = json!([]);
    let mut refused = Vec::new();
    for model in [&old, &capital, &list] {
        for publish in [true, false] {
            let save = json!({"model": model, "publish": publish});
            refused.push(http.post("workflow-definitions", &save).await);
        }
        let wrapped = json!({ "workflowDefinition": model });
        for (method, path, body) in [
            (Method::POST, "workflow-definitions", model),
            (Method::PUT, "workflow-definitions/old", model),
            (
                Method::PUT,
                "workflow-definitions/old",
                &json!({"model": model, "publish": false}),
            ),
            (Method::POST, "workflow-definitions/import", model),
            (Method::PUT, "workflow-definitions/import", &wrapped),
            (Method::POST, "workflow-definitions/import", &json!([model])),
            (Method::PUT, "workflow-definitions/old/import", model),
        ] {
            refused.push(http.send(method, path, &[], Some(body)).await.unwrap());
        }
        // One file of several: nothing of them is imported.
        let (text, several) = (model.to_string(), json!([model]).to_string());
        let new = self::model("new", "New").to_string();
        let archive = zip(&[entry("new.json", new.as_bytes()), entry("orders.json", text.as_bytes())]);
        for files in [
            vec![("new.json", new.as_bytes()), ("orders.json", text.as_bytes())],
            vec![("new.json", new.as_bytes()), ("all.json", several.as_bytes())],
            vec![("all.zip", archive.as_slice())],
        ] {
            let answer = import(http, &files).await;
            let named = answer.body["message"].as_str().unwrap_or_default().to_owned();
            assert!(
                ["orders.json", "all.json", "all.zip/orders.json"]
                    .iter()
                    .any(|name| named.starts_with(name)),
                "{named}"
            );
            refused.push(answer);
        }
    }
    for answer in refused {
        answer.assert_refused(400, "elsa-2-definition");
        let text = answer.body.to_string();
        for part in ["Elsa 2", "Elsa Studio 3", "HttpEndpoint"] {
            assert!(text.contains(part), "{answer:?}");
        }
    }
    assert_eq!(count(http).await, 0);
}
