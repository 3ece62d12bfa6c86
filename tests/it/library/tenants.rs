//! Tenants of one engine: what one has started is invisible to another one, and all that comes of it stays with it.

use mainspring::Engine;
use mainspring::id::{DefinitionId, InstanceId, TenantId};
use mainspring::runtime::{InstanceFilter, Page, VersionOptions};
use serde_json::{Value, json};

use crate::support::engine::{TestEngine, event, resume_of, save, start, start_as, waits_for};
use crate::support::{TIMEOUT, poll_until, wait_until};

/// An engine, as two tenants see it.
struct Tenants {
    test: TestEngine,
    acme: Engine,
    base: Engine,
}

impl Tenants {
    async fn new() -> Self {
        let test = TestEngine::new().await;
        let (acme, base) = (test.engine.for_tenant(TenantId::from("acme")), test.engine.clone());
        Self { test, acme, base }
    }

    /// The same in both tenants.
    async fn publish(&self, definition: Value) {
        save(&self.acme, definition.clone()).await;
        save(&self.base, definition).await;
    }
}

async fn sub_status(engine: &Engine, id: &str) -> String {
    engine.instance(&InstanceId::from(id)).await.unwrap().summary.sub_status
}

async fn becomes(engine: &Engine, id: &str, wanted: &str) {
    poll_until(TIMEOUT, wanted, async || {
        let detail = engine.instance(&InstanceId::from(id)).await.ok()?;
        (detail.summary.sub_status == wanted).then_some(())
    })
    .await;
}

async fn count(engine: &Engine) -> u64 {
    let all = InstanceFilter::default();
    engine.instances(&all, Page::default()).await.unwrap().total_count
}

fn literal(name: &str, value: impl Into<Value>) -> Value {
    json!({"typeName": name, "expression": {"type": "Literal", "value": value.into()}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_a_resume_and_a_cancel_reach_only_the_instances_of_their_tenant() {
    let tenants = Tenants::new().await;
    let Tenants { acme, base, .. } = &tenants;
    tenants.publish(waits_for("word", "Word", false)).await;
    for engine in [acme, base] {
        // The id is free in each tenant.
        let started = engine.execute(start_as("same", "word")).await.unwrap();
        assert_eq!(started.sub_status(), Some("Suspended"));
    }
    base.trigger_event(event("Word", json!("of base"))).await.unwrap();
    becomes(base, "same", "Finished").await;
    assert_eq!(sub_status(acme, "same").await, "Suspended");

    // Of another tenant there is nothing to read, to resume, to cancel or to delete.
    let own = InstanceId::from("own");
    acme.execute(start_as("own", "word")).await.unwrap();
    assert!(base.instance(&own).await.unwrap_err().is_not_found());
    assert!(base.resume(resume_of(&own)).await.unwrap_err().is_not_found());
    assert!(base.cancel(&own).await.unwrap_err().is_not_found());
    assert!(!base.delete(&own).await.unwrap());
    assert_eq!((count(acme).await, count(base).await), (2, 1));
    assert!(acme.cancel(&own).await.unwrap());
    becomes(acme, "own", "Cancelled").await;
    assert!(acme.delete(&own).await.unwrap());
    tenants.test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn triggers_timers_and_children_stay_in_the_tenant_that_set_them_off() {
    let tenants = Tenants::new().await;
    let Tenants { acme, base, .. } = &tenants;
    tenants.publish(waits_for("on-word", "Word", true)).await;
    tenants
        .publish(
            json!({"definitionId": "child", "root": {"type": "Elsa.Delay", "id": "d",
            "timeSpan": literal("TimeSpan", "00:00:00.2")}}),
        )
        .await;
    tenants
        .publish(
            json!({"definitionId": "parent", "root": {"type": "Elsa.DispatchWorkflow", "id": "c",
            "workflowDefinitionId": literal("String", "child"), "waitForCompletion": literal("Boolean", true)}}),
        )
        .await;
    let accepted = acme.trigger_event(event("Word", json!("w"))).await.unwrap();
    assert_eq!(accepted.started, 1, "that of its own tenant");
    wait_until("the trigger to start an instance", async || count(acme).await == 1).await;
    assert_eq!(count(base).await, 0);

    acme.execute(start_as("p", "parent")).await.unwrap();
    // The child sleeps by a timer, and wakes its parent.
    becomes(acme, "p", "Finished").await;
    assert_eq!((count(acme).await, count(base).await), (3, 0));
    let client = tenants.test.database.connect().await;
    let foreign = "SELECT count(*) FROM mainspring.instance WHERE tenant_id <> 'acme'";
    assert_eq!(client.count(foreign).await, 0);
    tenants.test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bulk_action_touches_no_other_tenant() {
    let tenants = Tenants::new().await;
    let Tenants { acme, base, .. } = &tenants;
    tenants.publish(waits_for("word", "Word", false)).await;
    for engine in [acme, base] {
        for _ in 0..3 {
            engine.execute(start("word")).await.unwrap();
        }
    }
    let action = base.cancel_all(&InstanceFilter::default()).await.unwrap();
    poll_until(TIMEOUT, "the bulk action", async || {
        base.bulk_action(&action).await.ok()?.finished_at.map(drop)
    })
    .await;
    assert!(acme.bulk_action(&action).await.unwrap_err().is_not_found());
    let waiting = InstanceFilter {
        sub_statuses: vec!["Suspended".to_owned()],
        ..InstanceFilter::default()
    };
    wait_until("the cancels", async || {
        base.instances(&waiting, Page::default()).await.unwrap().total_count == 0
    })
    .await;
    assert_eq!(acme.instances(&waiting, Page::default()).await.unwrap().total_count, 3);
    tenants.test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_are_those_of_the_tenant() {
    let tenants = Tenants::new().await;
    let Tenants { acme, base, .. } = &tenants;
    save(acme, waits_for("only-acme", "Word", false)).await;
    let id = DefinitionId::from("only-acme");
    acme.definition(&id, VersionOptions::Published).await.unwrap();
    assert!(
        base.definition(&id, VersionOptions::Published)
            .await
            .unwrap_err()
            .is_not_found()
    );
    assert!(base.dispatch(start("only-acme")).await.unwrap_err().is_not_found());
    assert_eq!(base.delete_definition(&id).await.unwrap_or(0), 0);
    acme.dispatch(start("only-acme")).await.unwrap();
    wait_until("the instance", async || count(acme).await == 1).await;
    tenants.test.assert_clean_end().await;
}
