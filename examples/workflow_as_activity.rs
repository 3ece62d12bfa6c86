//! A published workflow as an activity of another one: with an input, an output and an outcome.
//!
//! `DATABASE_URL=postgres://user:password@localhost/name cargo run --example workflow_as_activity`

use mainspring::{Engine, Result, definition::WorkflowDefinition, runtime::StartRequest};

/// It greets, and says how.
const GREET: &[u8] = br#"{"definitionId": "greet", "name": "Greet guest", "options": {"usableAsActivity": true},
    "inputs": [{"name": "Who", "type": "String"}], "outputs": [{"name": "Greeting", "type": "String"}], "outcomes": ["Polite"],
    "root": {"type": "Elsa.Sequence", "id": "steps", "activities": [
        {"type": "Elsa.SetOutput", "id": "greeting", "outputName": "Greeting",
         "outputValue": {"typeName": "Object", "expression": {"type": "JavaScript", "value": "`Good day, ${getWho()}`"}}},
        {"type": "Elsa.Complete", "id": "end", "outcomes": "Polite"}]}}"#;

/// Its type is the name of the other one in Pascal case. It runs inside this instance.
const VISIT: &[u8] = br#"{"definitionId": "visit", "variables": [{"id": "g", "name": "Said", "typeName": "String"}],
    "root": {"type": "Elsa.Flowchart", "id": "flow",
      "activities": [
        {"type": "GreetGuest", "id": "greet", "workflowDefinitionId": "greet", "who": "Ada",
         "greeting": {"typeName": "String", "memoryReference": {"id": "g"}}},
        {"type": "Elsa.WriteLine", "id": "line",
         "text": {"typeName": "String", "expression": {"type": "JavaScript", "value": "variables.Said"}}}],
      "connections": [{"source": {"activity": "greet", "port": "Polite"}, "target": {"activity": "line", "port": "In"}}]}}"#;

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "postgres://localhost/postgres".to_owned());
    let engine = Engine::builder(url).start().await?;
    for definition in [GREET, VISIT] {
        engine.save(WorkflowDefinition::from_json(definition)?, true).await?;
    }
    let run = engine
        .execute(StartRequest {
            definition_id: "visit".into(),
            ..StartRequest::default()
        })
        .await?;
    engine.shutdown().await;
    println!("{} is {}", run.instance_id, run.sub_status().unwrap_or("unknown"));
    Ok(())
}
