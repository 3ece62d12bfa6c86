//! An activity that never returns lets go of its worker and of its instance.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mainspring::Engine;
use mainspring::activity::{Activity, ActivityContext, Descriptor, Fault, Step};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::support::TestDatabase;
use crate::support::engine::{TestEngine, start};

/// Signals that it was called, and waits until it may return.
struct Slow {
    called: Arc<AtomicUsize>,
    may: Arc<Semaphore>,
}

impl Activity for Slow {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Slow")
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        self.called.fetch_add(1, Ordering::SeqCst);
        context.set_workflow_output("Word", "late");
        self.may.acquire().await?.forget();
        Ok(Step::Done)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_activity_that_hangs_faults_and_releases_its_worker_and_its_instance() {
    let database = TestDatabase::create().await;
    let (called, may) = (Arc::<AtomicUsize>::default(), Arc::new(Semaphore::new(0)));
    let slow = Slow {
        called: Arc::clone(&called),
        may: Arc::clone(&may),
    };
    let builder = Engine::builder(database.url())
        .node_id("one")
        .workers(1)
        .activity(slow)
        .activity_timeout(Duration::from_millis(200));
    let test = TestEngine::start(database, builder).await;
    test.publish(
        json!({"definitionId": "slow", "outputs": [{"name": "Word", "type": "String"}],
            "root": {"type": "Slow", "id": "slow"}}),
    )
    .await;
    test.publish(json!({"definitionId": "quick", "root": {"type": "Elsa.WriteLine", "id": "w", "text": "x"}}))
        .await;
    let faulted = test.engine.execute(start("slow")).await.unwrap();
    assert!(faulted.faulted && !faulted.pending, "{faulted:?}");
    let state = faulted.workflow_state();
    assert_eq!(
        state["incidents"][0]["exception"]["code"], "activity-timeout",
        "{state}"
    );
    assert_eq!(state["output"]["Word"], Value::Null, "{state}");
    // The one worker is free.
    let quick = test.engine.execute(start("quick")).await.unwrap();
    assert!(!quick.pending, "{quick:?}");
    // What it would have given comes too late, and it is not called again.
    may.add_permits(10);
    let cancelled = test.engine.cancel(&faulted.instance_id).await.unwrap();
    assert!(!cancelled, "it has ended");
    let read = test.engine.instance(&faulted.instance_id).await.unwrap().workflow_state;
    for unchanged in ["subStatus", "incidents", "output", "updatedAt"] {
        assert_eq!(read[unchanged], state[unchanged], "{read}");
    }
    assert_eq!(called.load(Ordering::SeqCst), 1);
    test.assert_clean_end().await;
}

#[tokio::test]
async fn a_zero_time_limit_is_rejected() {
    let builder = Engine::builder("postgres://nowhere/x").activity_timeout(Duration::ZERO);
    assert_eq!(builder.start().await.err().unwrap().code(), "invalid-settings");
}
