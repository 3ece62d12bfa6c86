//! A timer fires once, however many nodes could fire it: two engines on one database, and twenty delays.
//!
//! `DATABASE_URL=postgres://user:password@localhost/name cargo run --example timers`

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mainspring::activity::{Activity, ActivityContext, Descriptor, Fault, Step};
use mainspring::runtime::StartRequest;
use mainspring::{Engine, Result, definition::WorkflowDefinition};

/// Waits for half a second, and counts.
const REMINDER: &str = r#"{"definitionId": "reminder", "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
    {"type": "Elsa.Delay", "id": "wait", "timeSpan": {"typeName": "TimeSpan", "expression": {"type": "Literal", "value": "00:00:00.5"}}},
    {"type": "Count", "id": "count"}]}}"#;

struct Count(Arc<AtomicUsize>);

impl Activity for Count {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Count")
    }

    async fn execute(&self, _: &mut ActivityContext<'_>) -> std::result::Result<Step, Fault> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Step::Done)
    }
}

/// Runs the workflow twenty times; returns how often the activity after the delay was called.
pub(crate) async fn run(url: &str) -> Result<usize> {
    let calls = Arc::new(AtomicUsize::new(0));
    let first = Engine::builder(url).activity(Count(calls.clone())).start().await?;
    let second = Engine::builder(url).activity(Count(calls.clone())).start().await?;
    first
        .save(WorkflowDefinition::from_json(REMINDER.as_bytes())?, true)
        .await?;
    let mut ids = Vec::new();
    for _ in 0..20 {
        let start = StartRequest {
            definition_id: "reminder".into(),
            ..StartRequest::default()
        };
        ids.push(first.dispatch(start).await?);
    }
    for id in &ids {
        while first.instance(id).await?.summary.status != "Finished" {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    first.shutdown().await;
    second.shutdown().await;
    Ok(calls.load(Ordering::Relaxed))
}

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "postgres://localhost/postgres".to_owned());
    println!("{} calls after 20 delays", run(&url).await?);
    Ok(())
}
