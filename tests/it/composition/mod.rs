//! Workflows made of workflows.

mod nested;
mod updates;

use serde_json::{Value, json};

use crate::support::Http;

fn script(code: &str) -> Value {
    json!({"typeName": "Object", "expression": {"type": "JavaScript", "value": code}})
}

fn line(id: &str, code: &str) -> Value {
    json!({"type": "Elsa.WriteLine", "id": id, "text": script(code)})
}

fn sequence(activities: Vec<Value>) -> Value {
    json!({"type": "Elsa.Sequence", "id": "s", "activities": activities})
}

fn using(id: &str, definition: &str) -> Value {
    json!({"type": definition, "id": id, "version": 1, "workflowDefinitionId": definition,
        "workflowDefinitionVersionId": "of-another-server"})
}

/// A definition that others can use, and that updates them.
fn usable(id: &str, root: Value) -> Value {
    json!({"definitionId": id, "name": id, "root": root,
        "options": {"usableAsActivity": true, "autoUpdateConsumingWorkflows": true}})
}

async fn save(http: &Http, model: &Value, publish: bool) -> Value {
    let body = json!({"model": model, "publish": publish});
    http.post("workflow-definitions", &body).await.expect(200)
}

async fn latest(http: &Http, id: &str) -> Value {
    http.get(&format!("workflow-definitions/by-definition-id/{id}"))
        .await
        .expect(200)
}

/// The version id that an activity of a sequence names.
fn named(definition: &Value, at: usize) -> &str {
    definition["root"]["activities"][at]["workflowDefinitionVersionId"]
        .as_str()
        .unwrap()
}
