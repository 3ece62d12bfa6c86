//! A workflow that asks this program for a task, and publishes an event that another workflow waits for.
//!
//! `DATABASE_URL=postgres://user:password@localhost/name cargo run --example tasks`

use std::time::Duration;

use mainspring::runtime::{StartRequest, TaskSummary};
use mainspring::{Engine, Result, definition::WorkflowDefinition};
use serde_json::json;

/// Waits for the event, and writes its payload.
const SHIPPING: &str = r#"{"definitionId": "shipping", "variables": [{"id": "parcel", "name": "Parcel", "typeName": "Object"}],
    "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
        {"type": "Elsa.Event", "id": "wait", "eventName": {"expression": {"type": "Literal", "value": "Weighed"}},
         "result": {"typeName": "Object", "memoryReference": {"id": "parcel"}}},
        {"type": "Elsa.WriteLine", "id": "ship",
         "text": {"typeName": "String", "expression": {"type": "JavaScript", "value": "`Shipping ${getParcel().grams} g`"}}}]}}"#;

/// Asks for the weight of a parcel, and publishes it.
const WEIGHING: &str = r#"{"definitionId": "weighing", "variables": [{"id": "weight", "name": "Weight", "typeName": "Object"}],
    "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
        {"type": "Elsa.RunTask", "id": "weigh", "taskName": {"expression": {"type": "Literal", "value": "Weigh"}},
         "payload": {"expression": {"type": "JavaScript", "value": "({parcel: 7})"}},
         "result": {"typeName": "Object", "memoryReference": {"id": "weight"}}},
        {"type": "Elsa.PublishEvent", "id": "publish", "eventName": {"expression": {"type": "Literal", "value": "Weighed"}},
         "payload": {"typeName": "Object", "expression": {"type": "JavaScript", "value": "getWeight()"}}}]}}"#;

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "postgres://localhost/postgres".to_owned());
    let engine = Engine::builder(url).start().await?;
    for definition in [SHIPPING, WEIGHING] {
        engine
            .save(WorkflowDefinition::from_json(definition.as_bytes())?, true)
            .await?;
    }
    let start = |definition: &str| StartRequest {
        definition_id: definition.into(),
        ..StartRequest::default()
    };
    let shipping = engine.execute(start("shipping")).await?;
    engine.execute(start("weighing")).await?;
    // Any program may do the tasks: it lists them, and reports each result under a key of its own.
    for task in engine.tasks(None, 100).await?.items {
        engine.complete_task(&task.task_id, weigh(&task), None).await?;
    }
    // The event is given to the other workflow after the commit that publishes it.
    while engine.instance(&shipping.instance_id).await?.summary.sub_status != "Finished" {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    engine.shutdown().await;
    Ok(())
}

fn weigh(task: &TaskSummary) -> serde_json::Value {
    println!("{} {}", task.task_name, task.payload);
    json!({"grams": 1200})
}
