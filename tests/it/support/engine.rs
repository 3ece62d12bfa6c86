//! An engine within the test's process, and definitions and activities for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mainspring::Engine;
use mainspring::activity::{Activity, ActivityContext, Descriptor, Fault, Step};
use mainspring::definition::WorkflowDefinition;
use mainspring::id::InstanceId;
use mainspring::runtime::{EventRequest, StartRequest};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::{TIMEOUT, TestDatabase, poll_until};

pub(crate) struct TestEngine {
    pub(crate) database: TestDatabase,
    pub(crate) engine: Engine,
}

impl TestEngine {
    pub(crate) async fn new() -> Self {
        let database = TestDatabase::create().await;
        let engine = Engine::builder(database.url()).node_id("one").start().await.unwrap();
        Self { database, engine }
    }

    pub(crate) async fn publish(&self, definition: Value) {
        let definition = WorkflowDefinition::from_value(definition).unwrap();
        self.engine.save(definition, true).await.unwrap();
    }

    pub(crate) async fn finishes(&self, id: &InstanceId) -> Value {
        self.reaches(id, "Finished").await
    }

    pub(crate) async fn reaches(&self, id: &InstanceId, sub_status: &str) -> Value {
        poll_until(TIMEOUT, sub_status, async || {
            let detail = self.engine.instance(id).await.ok()?;
            (detail.summary.sub_status == sub_status).then_some(detail.workflow_state)
        })
        .await
    }

    pub(crate) async fn assert_clean_end(self) {
        self.engine.shutdown().await;
        assert_eq!(mainspring::check(&self.database.url(), "mainspring").await.unwrap(), []);
        let client = self.database.connect().await;
        let left = "SELECT (SELECT count(*) FROM mainspring.node) + (SELECT count(*) FROM mainspring.work WHERE claimed_by IS NOT NULL)";
        assert_eq!(client.query_one(left, &[]).await.unwrap().get::<_, i64>(0), 0);
    }
}

pub(crate) fn start(definition: &str) -> StartRequest {
    StartRequest {
        definition_id: definition.into(),
        ..StartRequest::default()
    }
}

pub(crate) fn event(name: &str, input: Value) -> EventRequest {
    EventRequest {
        name: name.to_owned(),
        input: Some(input),
        ..EventRequest::default()
    }
}

pub(crate) fn waits_for(definition: &str, event: &str, can_start: bool) -> Value {
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

/// Counts its executions, and waits for a permit in each.
pub(crate) struct GateActivity {
    pub(crate) entered: Arc<AtomicUsize>,
    pub(crate) permits: Arc<Semaphore>,
}

impl Activity for GateActivity {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Gate")
    }

    async fn execute(&self, _: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        self.entered.fetch_add(1, Ordering::SeqCst);
        self.permits.acquire().await?.forget();
        Ok(Step::Done)
    }
}

pub(crate) async fn gated() -> (TestEngine, Arc<AtomicUsize>, Arc<Semaphore>) {
    gated_on(TestDatabase::create().await).await
}

/// The same on a database of one's own.
pub(crate) async fn gated_on(database: TestDatabase) -> (TestEngine, Arc<AtomicUsize>, Arc<Semaphore>) {
    let (entered, permits) = (Arc::<AtomicUsize>::default(), Arc::new(Semaphore::new(0)));
    let gate = GateActivity {
        entered: Arc::clone(&entered),
        permits: Arc::clone(&permits),
    };
    let engine = Engine::builder(database.url())
        .activity(gate)
        .check_in(Duration::from_millis(100))
        .answer_timeout(Duration::from_secs(20))
        .start()
        .await
        .unwrap();
    let test = TestEngine { database, engine };
    test.publish(json!({"definitionId": "gated", "root": {"type": "Gate", "id": "gate"}}))
        .await;
    (test, entered, permits)
}

pub(crate) async fn entered(count: &AtomicUsize, wanted: usize) {
    poll_until(TIMEOUT, "the activity to begin", async || {
        (count.load(Ordering::SeqCst) >= wanted).then_some(())
    })
    .await;
}
