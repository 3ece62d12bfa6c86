//! An engine within the test's process, and definitions and activities for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mainspring::activity::{Activity, ActivityContext, Descriptor, Fault, Step};
use mainspring::definition::WorkflowDefinition;
use mainspring::id::InstanceId;
use mainspring::runtime::{
    EventAccepted, EventRequest, Idempotency, InstanceFilter, Page, ResumeRequest, StartRequest,
};
use mainspring::{Engine, EngineBuilder};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::{TIMEOUT, TestDatabase, poll_until, wait_until};

pub(crate) struct TestEngine {
    pub(crate) database: TestDatabase,
    pub(crate) engine: Engine,
}

impl TestEngine {
    pub(crate) async fn new() -> Self {
        let database = TestDatabase::create().await;
        let builder = Engine::builder(database.url()).node_id("one");
        Self::start(database, builder).await
    }

    /// A node without workers: what it accepts waits for another node.
    pub(crate) async fn idle() -> Self {
        let database = TestDatabase::create().await;
        let builder = Engine::builder(database.url()).node_id("idle").workers(0);
        Self::start(database, builder).await
    }

    /// A node with workers beside it.
    pub(crate) async fn worker(&self) -> Engine {
        let builder = Engine::builder(self.database.url()).node_id("worker");
        builder.start().await.unwrap()
    }

    /// A node without workers beside it.
    pub(crate) async fn beside(&self) -> Engine {
        let builder = Engine::builder(self.database.url()).node_id("beside").workers(0);
        builder.start().await.unwrap()
    }

    /// Cancels, and does not wait for the answer.
    pub(crate) fn cancels(&self, id: &InstanceId) -> JoinHandle<mainspring::Result<bool>> {
        let (engine, id) = (self.engine.clone(), id.clone());
        tokio::spawn(async move { engine.cancel(&id).await })
    }

    pub(crate) async fn start(database: TestDatabase, builder: EngineBuilder) -> Self {
        let engine = builder.start().await.unwrap();
        Self { database, engine }
    }

    pub(crate) async fn publish(&self, definition: Value) {
        save(&self.engine, definition).await;
    }

    pub(crate) async fn trigger(&self, name: &str, input: Value) -> EventAccepted {
        self.engine.trigger_event(event(name, input)).await.unwrap()
    }

    pub(crate) async fn instance_count(&self) -> u64 {
        let all = InstanceFilter::default();
        self.engine.instances(&all, Page::default()).await.unwrap().total_count
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
        assert_eq!(client.count(left).await, 0);
    }
}

/// Saves and publishes a definition.
pub(crate) async fn save(engine: &Engine, definition: Value) {
    let definition = WorkflowDefinition::from_value(definition).unwrap();
    engine.save(definition, true).await.unwrap();
}

/// A start of an instance with this id.
pub(crate) fn start_as(instance: &str, definition: &str) -> StartRequest {
    StartRequest {
        instance_id: Some(instance.into()),
        ..start(definition)
    }
}

/// A resume of the only bookmark.
pub(crate) fn resume_of(instance: &InstanceId) -> ResumeRequest {
    ResumeRequest {
        instance_id: instance.clone(),
        ..ResumeRequest::default()
    }
}

pub(crate) fn idempotency(key: &str) -> Option<Idempotency> {
    Some(Idempotency {
        key: key.to_owned(),
        fingerprint: [1; 32],
    })
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
    let builder = Engine::builder(database.url())
        .activity(gate)
        .check_in(Duration::from_millis(100))
        .answer_timeout(Duration::from_secs(20));
    let test = TestEngine::start(database, builder).await;
    test.publish(json!({"definitionId": "gated", "root": {"type": "Gate", "id": "gate"}}))
        .await;
    (test, entered, permits)
}

pub(crate) async fn entered(count: &AtomicUsize, wanted: usize) {
    wait_until("the activity to begin", async || count.load(Ordering::SeqCst) >= wanted).await;
}
