//! Ids of activities: bounded where a definition enters, and what is stored all the same is shown with little memory.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::single_node::SingleNode;

fn model(definition: &str, container: &str, count: usize) -> Value {
    let lines: Vec<Value> = (0..count)
        .map(|n| json!({"id": format!("n{n}"), "type": "Elsa.WriteLine"}))
        .collect();
    let inner = json!({"id": container, "type": "Elsa.Sequence", "activities": lines});
    json!({"definitionId": definition, "root": {"id": "outer", "type": "Elsa.Sequence", "activities": [inner]}})
}

#[tokio::test]
async fn a_long_id_is_refused_with_its_place() {
    let node = SingleNode::start(&[]).await;
    let http = &node.http;
    let (long, longest) = ("x".repeat(451), "x".repeat(450));
    let wrong = model("d", &long, 1);
    let saves = [
        (
            Method::POST,
            "workflow-definitions",
            json!({"model": wrong, "publish": false}),
        ),
        (
            Method::POST,
            "workflow-definitions",
            json!({"model": wrong, "publish": true}),
        ),
        (Method::PUT, "workflow-definitions/d", wrong.clone()),
        (Method::POST, "workflow-definitions/import", wrong.clone()),
        (Method::PUT, "workflow-definitions/d/import", wrong.clone()),
    ];
    for (method, path, body) in saves {
        let answer = http.send(method.clone(), path, &[], Some(&body)).await.unwrap();
        answer.assert_refused(400, "definition-too-large");
        let text = answer.body.to_string();
        for part in ["xxx… (Elsa.Sequence) in Workflow1:outer", "451 bytes", "at most 450"] {
            assert!(text.contains(part), "{method} {path}: {text}");
        }
    }
    http.post(
        "workflow-definitions",
        &json!({"model": model("d", &longest, 1), "publish": true}),
    )
    .await
    .expect(200);
    // Each of them is short enough, all of them are not.
    let mut root = json!({"id": "n", "type": "Elsa.WriteLine"});
    for _ in 0..20 {
        root = json!({"id": longest, "type": "Elsa.Sequence", "activities": [root]});
    }
    let deep = json!({"model": {"definitionId": "e", "root": root}, "publish": false});
    let answer = http.post("workflow-definitions", &deep).await;
    answer.assert_refused(400, "definition-too-large");
    assert!(answer.body.to_string().contains("at most 8000"), "{:?}", answer.body);
    http.get("workflow-definitions/by-definition-id/e").await.expect(404);
}

#[tokio::test]
async fn a_stored_definition_with_a_long_id_is_shown() {
    let node = SingleNode::start(&[]).await;
    let http = &node.http;
    let small = model("d", "inner", 1);
    http.post("workflow-definitions", &json!({"model": small, "publish": false}))
        .await
        .expect(200);
    let client = node.database.connect().await;
    let stored: String = client
        .query_one("SELECT body::text FROM mainspring.definition", &[])
        .await
        .unwrap()
        .get(0);
    let mut stored: Value = serde_json::from_str(&stored).unwrap();
    stored["root"] = model("d", &"x".repeat(5 << 20), 60)["root"].clone();
    let text = stored.to_string();
    let update = "UPDATE mainspring.definition SET body = $1::text::json";
    assert_eq!(client.execute(update, &[&text]).await.unwrap(), 1);
    let before = node.memory("VmHWM");
    let shown = http.get("workflow-definitions/by-definition-id/d").await.expect(200);
    let lines = shown["root"]["activities"][0]["activities"].as_array().unwrap();
    assert_eq!(lines.len(), 60);
    assert_eq!(lines[59]["id"], "n59");
    let grown = node.memory("VmHWM") - before;
    assert!(grown < 300 << 20, "{grown} bytes");
    let answer = http.post("workflow-definitions/d/publish", &json!({})).await;
    answer.assert_refused(400, "definition-too-large");
    assert!(answer.body.to_string().len() < 10_000);
    // It can be repaired.
    http.post("workflow-definitions", &json!({"model": small, "publish": true}))
        .await
        .expect(200);
}

#[tokio::test]
async fn a_callers_text_that_an_index_holds_is_bounded() {
    let node = SingleNode::start(&[]).await;
    let http = &node.http;
    // Text that the database cannot compress.
    let long: String = (0..250).map(|_| uuid::Uuid::new_v4().simple().to_string()).collect();
    let line = json!({"id": "w", "type": "Elsa.WriteLine"});
    let part = json!({"definitionId": "part", "name": long, "options": {"usableAsActivity": true}, "root": line});
    let uses = |field: &str| {
        let mut activity = json!({"id": "w", "type": "Part", "workflowDefinitionId": "part"});
        activity[field] = long.as_str().into();
        json!({"definitionId": "uses", "root": activity})
    };
    for (model, field) in [
        (part, "name"),
        (uses("workflowDefinitionId"), "root"),
        (uses("workflowDefinitionVersionId"), "root"),
        (uses("type"), "root"),
    ] {
        let draft = json!({"model": model, "publish": false});
        let answer = http.post("workflow-definitions", &draft).await;
        answer.assert_refused(400, "invalid-definition-id");
        let text = answer.body["errors"][field].to_string();
        assert!(text.contains("at most 255 bytes"), "{field}: {:?}", answer.body);
    }
    let event = json!({"activityInstanceId": long});
    let answer = http.post("events/Paid/trigger", &event).await;
    answer.assert_refused(400, "invalid-event");
    assert!(
        answer.body["errors"]["activityInstanceId"]
            .to_string()
            .contains("255 bytes")
    );
}
