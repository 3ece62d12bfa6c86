//! Failures of the database that are not counted against work: a revoked privilege.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mainspring::Engine;
use mainspring::activity::{Activity, ActivityContext, Descriptor, Fault, Step};
use mainspring::definition::WorkflowDefinition;
use serde_json::{Value, json};

use crate::support::engine::{TestEngine, event, resume_of, start, waits_for};
use crate::support::{TIMEOUT, TestDatabase, poll_until, wait_until};

/// Counts its executions.
struct Counts(Arc<AtomicUsize>);

impl Activity for Counts {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Counts")
    }

    async fn execute(&self, _: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(Step::Done)
    }
}

/// A node that works as a role which does not own the schema.
struct Limited {
    test: TestEngine,
    role: String,
    effects: Arc<AtomicUsize>,
}

impl Limited {
    async fn new() -> Self {
        let database = TestDatabase::create().await;
        let role = format!("{}_role", database.name());
        // Makes the partitions, which is the owner's.
        let owner = Engine::builder(database.url()).node_id("owner").start().await.unwrap();
        owner.shutdown().await;
        let client = database.connect().await;
        let grants = format!(
            "CREATE ROLE {role};
             GRANT USAGE, CREATE ON SCHEMA mainspring TO {role};
             GRANT ALL ON ALL TABLES IN SCHEMA mainspring TO {role};
             GRANT ALL ON ALL SEQUENCES IN SCHEMA mainspring TO {role};
             GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA mainspring TO {role}"
        );
        client.run(&grants).await;
        let effects = Arc::<AtomicUsize>::default();
        let url = format!("{}?options=-c%20role%3D{role}", database.url());
        let engine = Engine::builder(url)
            .node_id("limited")
            .migrate(false)
            .activity(Counts(Arc::clone(&effects)))
            .start()
            .await
            .unwrap();
        let test = TestEngine { database, engine };
        test.publish(json!({"definitionId": "counts", "root": {"type": "Counts", "id": "counts"}}))
            .await;
        test.publish(waits_for("waiter", "Never", false)).await;
        Self { test, role, effects }
    }

    async fn execute(&self, sql: &str) {
        let sql = sql.replace("$role", &self.role);
        self.test.database.connect().await.run(&sql).await;
    }

    async fn rows(&self, of: &str) -> i64 {
        self.test.database.connect().await.rows(of).await
    }

    fn effects(&self) -> usize {
        self.effects.load(Ordering::SeqCst)
    }

    async fn assert_clean_end(self) {
        let (url, role) = (self.test.database.url(), self.role.clone());
        assert!(!url.contains(&role));
        self.test.engine.shutdown().await;
        self.execute("DROP OWNED BY $role; DROP ROLE $role").await;
        self.test.assert_clean_end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_privilege_fails_no_start() {
    const STARTS: usize = 20;
    let limited = Limited::new().await;
    let engine = &limited.test.engine;
    limited
        .execute("REVOKE INSERT ON mainspring.burst_record FROM $role")
        .await;
    let mut ids = Vec::new();
    for _ in 0..STARTS {
        ids.push(engine.dispatch(start("counts")).await.unwrap());
    }
    let reason = poll_until(TIMEOUT, "the node to give the reason", async || {
        engine.readiness().reason
    })
    .await;
    assert!(reason.contains("42501"), "{reason}");
    assert!(!engine.readiness().ready());
    // What ran first was released.
    wait_until("what ran to be released", async || {
        limited.rows("work WHERE claim_no > 0 AND claimed_by IS NULL").await > 0
    })
    .await;
    assert_eq!(
        limited.rows("work WHERE failures > 0 OR crashes > 0").await,
        0,
        "failures were counted"
    );
    assert_eq!(limited.rows("dead_letter").await, 0);
    assert_eq!(limited.rows("work").await, STARTS as i64);
    let effects = limited.effects();
    assert!(effects <= STARTS * 2, "{effects} effects of {STARTS} starts");
    limited
        .execute("GRANT INSERT ON mainspring.burst_record TO $role")
        .await;
    for id in &ids {
        limited.test.finishes(id).await;
    }
    wait_until("the node to be ready again", async || engine.readiness().ready()).await;
    let effects = limited.effects();
    assert!(effects <= STARTS * 3, "{effects} effects of {STARTS} starts");
    limited.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instruction_that_cannot_be_accepted_is_unavailable_and_never_internal() {
    let limited = Limited::new().await;
    let engine = &limited.test.engine;
    let id = engine.execute(start("waiter")).await.unwrap().instance_id;
    let bookmark = || resume_of(&id);
    limited
        .execute(
            "REVOKE INSERT ON mainspring.work, mainspring.idempotency_key, mainspring.definition, mainspring.inbox FROM $role",
        )
        .await;
    let definition = WorkflowDefinition::from_value(waits_for("new", "Never", false)).unwrap();
    let refusals = [
        ("event", engine.trigger_event(event("Never", Value::Null)).await.err()),
        ("dispatch", engine.dispatch(start("counts")).await.err()),
        ("execute", engine.execute(start("counts")).await.err()),
        ("resume", engine.resume(bookmark()).await.err()),
        ("accept_resume", engine.accept_resume(bookmark()).await.err()),
        ("cancel", engine.cancel(&id).await.err()),
        ("save", engine.save(definition, true).await.err()),
    ];
    for (what, refusal) in refusals {
        let error = refusal.expect(what);
        assert!(error.is_unavailable() && error.is_transient(), "{what}: {error:?}");
        assert_eq!(error.code(), "database-fault", "{what}");
        assert!(error.message().contains("42501"), "{what}: {}", error.message());
    }
    limited
        .execute(
            "GRANT INSERT ON mainspring.work, mainspring.idempotency_key, mainspring.definition, mainspring.inbox TO $role",
        )
        .await;
    assert!(engine.trigger_event(event("Never", Value::Null)).await.is_ok());
    limited.test.finishes(&id).await;
    limited.assert_clean_end().await;
}
