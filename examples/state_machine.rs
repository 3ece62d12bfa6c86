//! An order as a state machine, made by a program; one of its states runs a flowchart with tokens.
//!
//! `DATABASE_URL=postgres://user:password@localhost/name cargo run --example state_machine`

use mainspring::runtime::{ResumeRequest, StartRequest};
use mainspring::{Engine, Result, definition::WorkflowDefinition};
use serde_json::{Value, json};

fn line(text: &str) -> Value {
    json!({"type": "Elsa.WriteLine", "id": text, "text": text})
}

/// The event that a bookmark of `workflowState` waits for.
fn event_of(bookmark: &Value) -> Option<&str> {
    bookmark.pointer("/payload/eventName")?.as_str()
}

/// Packs and labels side by side, and ships when both are done: the merge mode says so.
fn shipment() -> Value {
    let arrow = |source: &str, target: &str| json!({"source": {"activity": source}, "target": {"activity": target}});
    let shipped = json!({"type": "Elsa.WriteLine", "id": "shipped", "text": "shipped",
        "customProperties": {"mergeMode": "Merge"}});
    json!({"type": "Elsa.Flowchart", "id": "shipment",
        "activities": [{"type": "Elsa.Start", "id": "begin"}, line("packed"), line("labelled"), shipped],
        "connections": [arrow("begin", "packed"), arrow("begin", "labelled"),
            arrow("packed", "shipped"), arrow("labelled", "shipped")]})
}

fn order() -> Value {
    let on = |event: &str| json!({"type": "Elsa.Event", "id": event, "eventName": event});
    let machine = json!({"type": "Elsa.StateMachine", "id": "order", "initialState": "Open",
        "states": [{"name": "Open"}, {"name": "Shipped", "entry": shipment()}, {"name": "Closed", "entry": line("closed")}],
        // The first event wins; the bookmark of the other one goes.
        "transitions": [{"from": "Open", "to": "Shipped", "trigger": on("Paid")},
            {"from": "Open", "to": "Closed", "trigger": on("Cancelled")}]});
    json!({"definitionId": "order", "customProperties": {"Flowchart:ExecutionMode": "TokenBased"}, "root": machine})
}

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "postgres://localhost/postgres".to_owned());
    let engine = Engine::builder(url).start().await?;
    let published = engine.save(WorkflowDefinition::from_value(order())?, true).await?;
    // What is published and hardly meant, as a state machine without a start.
    for warning in published.warnings {
        println!("{}: {}", warning.activity_id, warning.message);
    }
    let run = engine
        .execute(StartRequest {
            definition_id: "order".into(),
            ..StartRequest::default()
        })
        .await?;
    let state = run.workflow_state();
    let bookmarks: Vec<&Value> = state
        .get("bookmarks")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .collect();
    let events: Vec<&str> = bookmarks.iter().filter_map(|bookmark| event_of(bookmark)).collect();
    println!("The order waits for {}", events.join(", "));
    // `trigger_event` would resume every order that waits for the payment.
    let paid = bookmarks.iter().find(|bookmark| event_of(bookmark) == Some("Paid"));
    let ended = engine
        .resume(ResumeRequest {
            instance_id: run.instance_id,
            bookmark_id: paid.and_then(|bookmark| bookmark.get("id")?.as_str()).map(Into::into),
            ..ResumeRequest::default()
        })
        .await?;
    // It also flushes the lines of workflows.
    engine.shutdown().await;
    println!("The order is {}", ended.sub_status().unwrap_or("unknown"));
    Ok(())
}
