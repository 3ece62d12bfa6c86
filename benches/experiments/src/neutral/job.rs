//! The job: a workflow of one activity, which sleeps.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mainspring::activity::{Activity, ActivityContext, Descriptor, Fault, InputDescriptor, Step};
use mainspring::definition::WorkflowDefinition;
use mainspring::id::DefinitionId;
use mainspring::internals::Failure;
use mainspring::runtime::StartRequest;
use serde_json::{Map, Value, json};

use crate::measures::Measures;
use crate::settings::Journal;

/// The id of its definition.
const DEFINITION: &str = "job";

/// The activity.
pub(crate) struct Job {
    work: Duration,
    measures: Arc<Measures>,
}

impl Job {
    pub(crate) fn new(work: Duration, measures: Arc<Measures>) -> Self {
        Self { work, measures }
    }
}

impl Activity for Job {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Bench.Job")
            .describe("Bench", "Sleeps, and measures how late it began.")
            .input(InputDescriptor::new("ProducedAt", "Int64").required())
            .input(InputDescriptor::new("Payload", "String").required())
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let produced_at: u64 = context.read("ProducedAt")?;
        // Another replica may have produced it, so this is by the clock that both have.
        let age = || Duration::from_micros(now().saturating_sub(produced_at));
        self.measures.claims.record(age());
        if !self.work.is_zero() {
            tokio::time::sleep(self.work).await;
        }
        self.measures.ends.record(age());
        Ok(Step::Done)
    }
}

/// The workflow.
pub(crate) fn definition(journal: Journal) -> Result<WorkflowDefinition, Failure> {
    let input = |kind: &str, name: &str| json!({"typeName": kind, "expression": {"type": "Input", "value": name}});
    let mut definition = WorkflowDefinition::from_value(json!({
        "definitionId": DEFINITION,
        "name": "Job",
        "inputs": [{"name": "producedAt", "type": "Int64"}, {"name": "payload", "type": "String"}],
        "root": {
            "id": "job",
            "type": "Bench.Job",
            "producedAt": input("Int64", "producedAt"),
            "payload": input("String", "payload"),
        },
    }))?;
    if journal == Journal::Off {
        definition.options.insert("journal".to_owned(), "off".into());
    }
    Ok(definition)
}

/// The start of a job that is produced now.
pub(crate) fn start(payload: &str) -> StartRequest {
    let input: Map<String, Value> = [
        ("producedAt".to_owned(), json!(now())),
        ("payload".to_owned(), json!(payload)),
    ]
    .into_iter()
    .collect();
    StartRequest {
        definition_id: DefinitionId::new(DEFINITION),
        input,
        ..StartRequest::default()
    }
}

/// Microseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
