//! An engine in your own program, with your own activity.
//!
//! `DATABASE_URL=postgres://user:password@localhost/name cargo run --example embedded`

use mainspring::activity::{Activity, ActivityContext, Descriptor, Fault, InputDescriptor, Step};
use mainspring::{Engine, Result, definition::WorkflowDefinition, runtime::StartRequest};

struct Greet;

impl Activity for Greet {
    fn descriptor(&self) -> Descriptor {
        // Elsa Studio shows it in its toolbox, with a field for the input.
        Descriptor::new("Greet")
            .describe("Demonstration", "Writes a greeting to the console.")
            .input(
                InputDescriptor::new("Who", "String")
                    .describe("The name in the greeting.")
                    .required(),
            )
    }

    /// Executed again if the process dies before the commit of its burst. Pass `context.idempotency_key()` to external
    /// services.
    async fn execute(&self, context: &mut ActivityContext<'_>) -> std::result::Result<Step, Fault> {
        context.write_line(&format!("Hello, {}!", context.text("Who").unwrap_or_default()));
        Ok(Step::Done)
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "postgres://localhost/postgres".to_owned());
    let engine = Engine::builder(url).activity(Greet).start().await?;
    let greeting = br#"{"definitionId": "greeting", "root": {"type": "Greet", "id": "greet1",
        "who": {"typeName": "String", "expression": {"type": "Literal", "value": "world"}}}}"#;
    engine.save(WorkflowDefinition::from_json(greeting)?, true).await?;
    let run = engine
        .execute(StartRequest {
            definition_id: "greeting".into(),
            ..StartRequest::default()
        })
        .await?;
    // It also flushes the lines of workflows.
    engine.shutdown().await;
    println!("{} is {}", run.instance_id, run.sub_status().unwrap_or("unknown"));
    Ok(())
}
