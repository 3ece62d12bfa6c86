//! Control flow built by a program: a payment is tried again, in a loop with its condition at the end, until it succeeds.
//!
//! `DATABASE_URL=postgres://user:password@localhost/name cargo run --example control_flow`

use mainspring::activity::{Activity, ActivityContext, Descriptor, Fault, InputDescriptor, OutputDescriptor, Step};
use mainspring::{Engine, Result, definition::WorkflowDefinition, runtime::StartRequest};
use serde_json::{Value, json};

/// Charges a card: twice in vain.
struct Charge;

impl Activity for Charge {
    fn descriptor(&self) -> Descriptor {
        // A definition may catch this category by its name.
        Descriptor::new("Shop.Charge")
            .describe("Shop/Payment", "Charges a credit card.")
            .input(InputDescriptor::new("Attempt", "Int32").describe("The number of the attempt."))
            .output(OutputDescriptor::new("Result", "String").describe("The number of the receipt."))
            .fault_category("Payment")
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> std::result::Result<Step, Fault> {
        let attempt: u32 = context.read("Attempt")?;
        if attempt < 3 {
            return Err(Fault::new("The bank does not answer")
                .code("timeout")
                .category("Payment"));
        }
        context.set_output("Result", format!("receipt {attempt}"));
        Ok(Step::Done)
    }
}

/// A `Mainspring.Try` in a `Mainspring.DoWhile`.
fn payment() -> Value {
    let script = |type_name: &str, text: &str| json!({"typeName": type_name, "expression": {"type": "JavaScript", "value": text}});
    let line = |id: &str, text: &str| json!({"id": id, "type": "Elsa.WriteLine", "text": script("String", text)});
    let charge = json!({"id": "charge", "type": "Shop.Charge", "attempt": script("Int32", "getAttempts()"),
        "result": {"typeName": "String", "memoryReference": {"id": "receipt"}}});
    let count = json!({"id": "count", "type": "Elsa.SetVariable", "variable": {"id": "attempts"},
        "value": script("Int32", "getAttempts() + 1")});
    let attempt = json!({"id": "attempt", "type": "Mainspring.Try", "catchCategories": ["Payment"],
        "try": charge,
        "catch": line("declined", "`Declined: ${getFault().message} (${getFault().code})`"),
        "finally": line("over", "`Attempt ${getAttempts()} is over`")});
    let body = json!({"id": "round", "type": "Elsa.Sequence", "activities": [count, attempt]});
    let again = json!({"id": "again", "type": "Mainspring.DoWhile", "body": body,
        "condition": script("Boolean", "getReceipt() === null && getAttempts() < 5")});
    let result = json!({"id": "result", "type": "Elsa.SetOutput", "outputName": "Receipt", "outputValue": script("Object", "getReceipt()")});
    json!({
        "definitionId": "payment",
        "variables": [
            {"id": "attempts", "name": "Attempts", "typeName": "Int32", "value": 0},
            {"id": "receipt", "name": "Receipt", "typeName": "String", "value": null}
        ],
        "outputs": [{"name": "Receipt", "type": "String"}],
        "root": {"id": "root", "type": "Elsa.Sequence", "activities": [again, result]}
    })
}

/// Runs the workflow; returns its output.
pub(crate) async fn run(url: &str) -> Result<Value> {
    let engine = Engine::builder(url).activity(Charge).start().await?;
    engine.save(WorkflowDefinition::from_value(payment())?, true).await?;
    let run = engine
        .execute(StartRequest {
            definition_id: "payment".into(),
            ..StartRequest::default()
        })
        .await?;
    // It also flushes the lines of workflows.
    engine.shutdown().await;
    Ok(run.workflow_state().get("output").cloned().unwrap_or_default())
}

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "postgres://localhost/postgres".to_owned());
    println!("{}", run(&url).await?);
    Ok(())
}
