//! A workflow that starts an instance of another one for each item of a list, and continues when all have ended.
//!
//! `DATABASE_URL=postgres://user:password@localhost/name cargo run --example children`

use std::time::Duration;

use mainspring::runtime::StartRequest;
use mainspring::{Engine, Result, definition::WorkflowDefinition};

/// Greets one name. An input without a declaration is read as one with it.
const GREETING: &[u8] = br#"{"definitionId": "greeting", "root": {"type": "Elsa.WriteLine", "id": "line",
    "text": {"typeName": "String", "expression": {"type": "JavaScript", "value": "'Hello, ' + getInput('Who') + '!'"}}}}"#;

/// Starts a greeting for each name, counts them at the port, and writes how many there were.
const GREETINGS: &[u8] = br#"{"definitionId": "greetings",
    "variables": [{"id": "count", "name": "Count", "typeName": "Int32", "value": "0"}],
    "root": {"type": "Elsa.Sequence", "id": "steps", "activities": [
        {"type": "Elsa.BulkDispatchWorkflows", "id": "all",
         "workflowDefinitionId": {"typeName": "String", "expression": {"type": "Literal", "value": "greeting"}},
         "items": {"typeName": "Object", "expression": {"type": "Object", "value": "[\"Ada\", \"Bob\", \"Cyd\"]"}},
         "defaultItemInputKey": {"typeName": "String", "expression": {"type": "Literal", "value": "Who"}},
         "childCompleted": {"type": "Elsa.SetVariable", "id": "add", "variable": {"id": "count", "name": "Count"},
             "value": {"typeName": "Int32", "expression": {"type": "JavaScript", "value": "getCount() + 1"}}}},
        {"type": "Elsa.WriteLine", "id": "end",
         "text": {"typeName": "String", "expression": {"type": "JavaScript", "value": "getCount() + ' greetings'"}}}]}}"#;

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "postgres://localhost/postgres".to_owned());
    let engine = Engine::builder(url).start().await?;
    for definition in [GREETING, GREETINGS] {
        engine.save(WorkflowDefinition::from_json(definition)?, true).await?;
    }
    let start = StartRequest {
        definition_id: "greetings".into(),
        ..StartRequest::default()
    };
    let id = engine.dispatch(start).await?;
    loop {
        // An instance that was accepted is there, whether it has run or not.
        let instance = engine.instance(&id).await?;
        if instance.summary.status == "Finished" {
            // It also flushes the lines of workflows.
            engine.shutdown().await;
            println!("{id} is {}", instance.summary.sub_status);
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
