//! The engine as a library: doors, events in both orders, versions, cancellation, faults of the database.

mod cancel;
mod doors;
mod fates;
mod faults;
mod forged;
mod hangs;
mod large;
mod library;
mod life;
mod schedules;
mod scripts;
mod services;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mainspring::Engine;
use mainspring::activity::{Activity, ActivityContext, Descriptor, Fault, Step};
use mainspring::definition::WorkflowDefinition;
use mainspring::id::InstanceId;
use mainspring::runtime::{EventRequest, Executed, Idempotency, ResumeRequest, StartRequest};
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use crate::support::{TestDatabase, poll_until};

const PATIENCE: Duration = Duration::from_secs(60);

struct Bench {
    database: TestDatabase,
    engine: Engine,
}

impl Bench {
    async fn new() -> Self {
        let database = TestDatabase::create().await;
        let engine = Engine::builder(database.url()).node_id("one").start().await.unwrap();
        Self { database, engine }
    }

    async fn publish(&self, definition: Value) {
        let definition = WorkflowDefinition::from_value(definition).unwrap();
        self.engine.save(definition, true).await.unwrap();
    }

    async fn finishes(&self, id: &InstanceId) -> Value {
        self.reaches(id, "Finished").await
    }

    async fn reaches(&self, id: &InstanceId, sub_status: &str) -> Value {
        poll_until(PATIENCE, sub_status, async || {
            let detail = self.engine.instance(id).await.ok()?;
            (detail.summary.sub_status == sub_status).then_some(detail.workflow_state)
        })
        .await
    }

    async fn ends_well(self) {
        self.engine.shutdown().await;
        assert_eq!(mainspring::check(&self.database.url(), "mainspring").await.unwrap(), []);
        let client = self.database.connect().await;
        let left = "SELECT (SELECT count(*) FROM mainspring.node) + (SELECT count(*) FROM mainspring.work WHERE claimed_by IS NOT NULL)";
        assert_eq!(client.query_one(left, &[]).await.unwrap().get::<_, i64>(0), 0);
    }
}

fn start(definition: &str) -> StartRequest {
    StartRequest {
        definition_id: definition.into(),
        ..StartRequest::default()
    }
}

fn event(name: &str, input: Value) -> EventRequest {
    EventRequest {
        name: name.to_owned(),
        input: Some(input),
        ..EventRequest::default()
    }
}

fn waits_for(definition: &str, event: &str, can_start: bool) -> Value {
    json!({
        "definitionId": definition,
        "variables": [{"id": "v", "name": "Word", "typeName": "Object"}],
        "outputs": [{"name": "Word", "type": "Object"}],
        "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
            {"type": "Elsa.Event", "id": "event", "canStartWorkflow": can_start,
             "eventName": {"typeName": "String", "expression": {"type": "Literal", "value": event}},
             "result": {"typeName": "Object", "memoryReference": {"id": "v"}}},
            {"type": "Elsa.SetOutput", "id": "out",
             "outputName": {"typeName": "String", "expression": {"type": "Literal", "value": "Word"}},
             "outputValue": {"typeName": "Object", "expression": {"type": "JavaScript", "value": "getWord()"}}}
        ]}
    })
}
