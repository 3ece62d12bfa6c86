//! An event that comes before the instance that waits for it is kept, and given to that instance.
//!
//! `DATABASE_URL=postgres://user:password@localhost/name cargo run --example early_event`

use std::time::Duration;

use mainspring::runtime::{EventRequest, StartRequest};
use mainspring::{Engine, Result, definition::WorkflowDefinition};
use serde_json::{Value, json};

/// Waits for the payment of the order that its correlation id names.
const ORDER: &str = r#"{"definitionId": "order", "outputs": [{"name": "Paid", "type": "Object"}],
    "variables": [{"id": "paid", "name": "Paid", "typeName": "Object"}],
    "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
        {"type": "Elsa.Event", "id": "wait", "eventName": {"expression": {"type": "Literal", "value": "Paid"}},
         "result": {"typeName": "Object", "memoryReference": {"id": "paid"}}},
        {"type": "Elsa.SetOutput", "id": "end", "outputName": {"typeName": "String", "expression": {"type": "Literal", "value": "Paid"}},
         "outputValue": {"typeName": "Object", "expression": {"type": "JavaScript", "value": "getPaid().amount"}}}]}}"#;

/// Publishes the event first and starts the instance afterwards; returns the instance's output.
pub(crate) async fn run(url: &str) -> Result<Value> {
    let engine = Engine::builder(url).start().await?;
    engine
        .save(WorkflowDefinition::from_json(ORDER.as_bytes())?, true)
        .await?;
    let paid = EventRequest {
        name: "Paid".to_owned(),
        correlation_id: Some("A-17".to_owned()),
        input: Some(json!({"amount": 1200})),
        ..EventRequest::default()
    };
    let accepted = engine.trigger_event(paid).await?;
    println!("resumed {}, kept {}", accepted.resumed, accepted.kept);
    let order = StartRequest {
        definition_id: "order".into(),
        correlation_id: Some("A-17".to_owned()),
        ..StartRequest::default()
    };
    let id = engine.execute(order).await?.instance_id;
    let finished = loop {
        let instance = engine.instance(&id).await?;
        if instance.summary.status == "Finished" {
            break instance;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    engine.shutdown().await;
    Ok(finished.workflow_state.get("output").cloned().unwrap_or_default())
}

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "postgres://localhost/postgres".to_owned());
    println!("{}", run(&url).await?);
    Ok(())
}
