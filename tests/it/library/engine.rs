//! What a program that embeds an engine may rely on: repeated calls, versions of activities, saves, faults, the end.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mainspring::Engine;
use mainspring::activity::{Activity, ActivityContext, BookmarkRequest, Descriptor, Fault, Step};
use mainspring::definition::WorkflowDefinition;
use mainspring::id::DefinitionId;
use mainspring::runtime::{EventRequest, Page, VersionOptions};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::support::engine::{TestEngine, event, idempotency, resume_of, save, start, waits_for};
use crate::support::single_node::literal;
use crate::support::{TIMEOUT, TestDatabase, assert_fields, poll_until, wait_until};

/// Notes which attempt it is, and waits for a permit.
#[derive(Clone)]
struct Attempts {
    seen: Arc<Mutex<Vec<u32>>>,
    permits: Arc<Semaphore>,
}

impl Attempts {
    fn new() -> Self {
        Self {
            seen: Arc::default(),
            permits: Arc::new(Semaphore::new(0)),
        }
    }

    fn seen(&self) -> Vec<u32> {
        self.seen.lock().unwrap().clone()
    }
}

impl Activity for Attempts {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Attempts")
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        self.seen.lock().unwrap().push(context.attempt());
        self.permits.acquire().await?.forget();
        Ok(Step::Done)
    }
}

async fn until_seen(attempts: &Attempts, count: usize) {
    wait_until("the activity to begin", async || attempts.seen().len() >= count).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_that_releases_a_burst_counts_as_an_attempt() {
    let database = TestDatabase::create().await;
    let attempts = Attempts::new();
    let node = |name: &str| Engine::builder(database.url()).node_id(name).activity(attempts.clone());
    let engine = node("first").start().await.unwrap();
    // A completed activity before the one that is interrupted is called again, too.
    let counted = |id: &str| json!({"type": "Attempts", "id": id});
    let both = json!({"type": "Elsa.Sequence", "id": "both", "activities": [counted("one"), counted("two")]});
    save(&engine, json!({"definitionId": "twice", "root": both})).await;
    let id = engine.dispatch(start("twice")).await.unwrap();
    until_seen(&attempts, 1).await;
    attempts.permits.add_permits(1);
    until_seen(&attempts, 2).await;
    engine.shutdown_within(Duration::ZERO).await;

    let engine = node("second").start().await.unwrap();
    until_seen(&attempts, 3).await;
    attempts.permits.add_permits(2);
    let test = TestEngine { database, engine };
    test.finishes(&id).await;
    assert_eq!(attempts.seen(), [1, 1, 2, 2]);
    test.assert_clean_end().await;
}

/// Waits once, and notes which version of the type continues.
struct Versioned(i32, Arc<Mutex<Vec<i32>>>);

impl Activity for Versioned {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Versioned").version(self.0)
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        context.bookmark(BookmarkRequest::new(json!({})));
        Ok(Step::Wait)
    }

    async fn resumed(&self, _: &mut ActivityContext<'_>, _: mainspring::activity::Resumption) -> Result<Step, Fault> {
        self.1.lock().unwrap().push(self.0);
        Ok(Step::Done)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_never_goes_on_with_another_version_of_an_activity() {
    let database = TestDatabase::create().await;
    let ran = Arc::<Mutex<Vec<i32>>>::default();
    let node = |name: &str, version: i32| {
        let builder = Engine::builder(database.url())
            .node_id(name)
            .check_in(Duration::from_millis(100));
        builder.activity(Versioned(version, Arc::clone(&ran)))
    };
    let old = node("old", 1).start().await.unwrap();
    let root = json!({"type": "Versioned", "version": 1, "id": "v"});
    save(&old, json!({"definitionId": "old", "root": root})).await;
    let id = old.execute(start("old")).await.unwrap().instance_id;
    old.shutdown().await;

    let new = node("new", 2).start().await.unwrap();
    let resume = resume_of(&id);
    new.accept_resume(resume).await.unwrap();
    poll_until(TIMEOUT, "the new node to publish what it lacks", async || {
        let nodes = new.cluster_nodes(Page::default()).await.ok()?;
        let own = nodes.items.into_iter().find(|node| node.node_id.as_str() == "new")?;
        (own.lacks == ["Versioned@1"]).then_some(())
    })
    .await;
    // It has not gone on, and what names the old version is not published by a node that lacks it.
    assert_eq!(new.instance(&id).await.unwrap().summary.sub_status, "Suspended");
    assert_eq!(*ran.lock().unwrap(), [0; 0]);
    let root = json!({"type": "Versioned", "version": 1, "id": "w"});
    let definition = WorkflowDefinition::from_value(json!({"definitionId": "other", "root": root})).unwrap();
    let refused = new.save(definition, true).await.unwrap_err();
    assert!(refused.fields()[0].1.contains("in version 1"), "{refused}");

    let old = node("old-again", 1).start().await.unwrap();
    let test = TestEngine { database, engine: new };
    test.finishes(&id).await;
    assert_eq!(*ran.lock().unwrap(), [1]);
    old.shutdown().await;
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_equal_definition_makes_no_new_version() {
    let test = TestEngine::new().await;
    let engine = &test.engine;
    let model = |text: &str| {
        let root = json!({"type": "Elsa.WriteLine", "id": "line", "text": text});
        WorkflowDefinition::from_value(json!({"definitionId": "same", "name": "Same", "root": root})).unwrap()
    };
    let first = engine.save(model("a"), true).await.unwrap();
    assert!(!first.already_published);
    let client = test.database.connect().await;
    let revision = async || {
        let revision = client
            .query_one("SELECT revision FROM mainspring.revision", &[])
            .await
            .unwrap();
        revision.get::<_, i64>(0)
    };
    let published = revision().await;

    // As a program does at each start, as a client sends back what it got, and as a draft.
    let again = engine.save(model("a"), true).await.unwrap();
    assert!(again.already_published);
    assert_eq!(again.definition, first.definition);
    let sent_back = WorkflowDefinition::from_value(first.definition.clone()).unwrap();
    assert!(engine.save(sent_back, true).await.unwrap().already_published);
    let draft = engine.save(model("a"), false).await.unwrap();
    assert!(draft.already_published);
    assert_eq!(draft.definition, first.definition);
    assert_eq!(engine.import(model("a")).await.unwrap(), first.definition);
    assert_eq!(revision().await, published, "nothing was published");

    // Anything else makes one, a draft that goes back to what is published as well.
    let draft = engine.save(model("b"), false).await.unwrap();
    assert!(!draft.already_published);
    assert_fields!(draft.definition, {"version": 2, "isPublished": false});
    let back = engine.save(model("a"), true).await.unwrap();
    assert!(!back.already_published);
    assert_fields!(back.definition, {"version": 2, "isPublished": true});
    let named = json!({"definitionId": "same", "name": "Other", "root": back.definition["root"]});
    let named = engine
        .save(WorkflowDefinition::from_value(named).unwrap(), true)
        .await
        .unwrap();
    assert_eq!(named.definition["version"], 3);
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_to_a_faulted_instance_says_so() {
    let test = TestEngine::new().await;
    let engine = &test.engine;
    let waits = |id: &str, name: &str| json!({"type": "Elsa.Event", "id": id, "eventName": name});
    let fails = json!({"type": "Elsa.Fault", "id": "broken", "message": "no such order"});
    let both = json!({"type": "Elsa.Sequence", "id": "both", "activities": [waits("event", "Go"), fails]});
    test.publish(json!({"definitionId": "fails", "root": both})).await;
    let id = engine.execute(start("fails")).await.unwrap().instance_id;
    let go = EventRequest {
        instance_id: Some(id.clone()),
        idempotency: idempotency("once"),
        ..event("Go", json!({}))
    };
    let first = engine.trigger_event(go.clone()).await.unwrap();
    assert_eq!(first.resumed, 1);
    test.reaches(&id, "Faulted").await;

    let resume = resume_of(&id);
    for refused in [
        engine.resume(resume.clone()).await.unwrap_err(),
        engine.accept_resume(resume).await.unwrap_err(),
        engine
            .trigger_event(EventRequest {
                idempotency: None,
                ..go.clone()
            })
            .await
            .unwrap_err(),
    ] {
        assert_eq!(refused.code(), "instance-faulted");
        assert!(
            refused.is_conflict() && refused.message().contains("broken"),
            "{refused}"
        );
    }
    // A client that repeats what the instance has faulted by gets its first answer.
    engine.trigger_event(go).await.unwrap();

    // One that ended well was resumed, and nothing more.
    test.publish(waits_for("ends", "Now", false)).await;
    let id = engine.execute(start("ends")).await.unwrap().instance_id;
    let resume = resume_of(&id);
    engine.resume(resume.clone()).await.unwrap();
    assert_eq!(engine.resume(resume).await.unwrap_err().code(), "already-resumed");
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_shutdown_no_call_asks_for_a_retry() {
    let test = TestEngine::new().await;
    test.publish(waits_for("waits", "Go", false)).await;
    test.engine.shutdown().await;
    let engine = &test.engine;
    let id = DefinitionId::from("waits");
    for refused in [
        engine.execute(start("waits")).await.unwrap_err(),
        engine.dispatch(start("waits")).await.unwrap_err(),
        engine.trigger_event(event("Go", json!({}))).await.unwrap_err(),
        engine.cancel(&"i".into()).await.unwrap_err(),
        engine.publish(&id).await.unwrap_err(),
        engine.definition(&id, Default::default()).await.unwrap_err(),
        engine.cluster_nodes(Page::default()).await.unwrap_err(),
    ] {
        assert_eq!(refused.code(), "engine-stopped");
        assert!(refused.is_stopped() && !refused.is_transient(), "{refused}");
    }
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_changes_its_own_read_only_definitions() {
    let test = TestEngine::new().await;
    let engine = &test.engine;
    let model = |text: &str, flag: &str| {
        let root = json!({"type": "Elsa.WriteLine", "id": "line", "text": text});
        WorkflowDefinition::from_value(json!({"definitionId": flag, flag: true, "root": root})).unwrap()
    };
    for flag in ["isReadonly", "isSystem"] {
        for (text, version) in [("a", 1), ("b", 2)] {
            let saved = engine.save(model(text, flag), true).await.unwrap().definition;
            assert_eq!((&saved["version"], &saved[flag]), (&json!(version), &json!(true)));
        }
        engine.revert(&flag.into(), 1).await.unwrap();
        assert!(!engine.publish(&flag.into()).await.unwrap().already_published);
        engine.retract(&flag.into()).await.unwrap();
        assert_eq!(engine.delete_definition(&flag.into()).await.unwrap(), 3);
    }
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publish_with_a_stored_version_id_updates_its_consumers() {
    let test = TestEngine::new().await;
    let part = |text: &str| {
        json!({
            "definitionId": "Part", "id": "of-file", "name": "Part",
            "options": {"usableAsActivity": true, "autoUpdateConsumingWorkflows": true},
            "root": {"id": "Line", "type": "Elsa.WriteLine", "text": literal(text)},
        })
    };
    test.publish(part("a")).await;
    let used = json!({"id": "Use", "type": "Part", "version": 1, "workflowDefinitionId": "Part"});
    test.publish(json!({"definitionId": "consumer", "root": used})).await;
    let changed = WorkflowDefinition::from_value(part("b")).unwrap();
    let saved = test.engine.save(changed, true).await.unwrap();
    assert_eq!(saved.consumers_updated, [DefinitionId::new("consumer")]);
    // Its version has an id of its own, which the consumer names.
    let latest = VersionOptions::Latest;
    let consumer = test
        .engine
        .definition(&DefinitionId::new("consumer"), latest)
        .await
        .unwrap();
    assert_ne!(saved.definition["id"], "of-file");
    assert_eq!(consumer["root"]["workflowDefinitionVersionId"], saved.definition["id"]);
    test.assert_clean_end().await;
}
