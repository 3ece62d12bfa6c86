use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::volatile_request::Gate;
use crate::activity::{
    Activity, ActivityContext, ActivityKind, Answer, AnswerBody, AnswerStatus, BookmarkRequest, Descriptor, Fault,
    InputDescriptor, Resumption, Step,
};
use crate::definition::WorkflowDefinition;
use crate::execution::stimulus_hash;
use crate::id::InstanceId;
use crate::runtime::engine::http_request::{HttpEnd, HttpOutcome, HttpRun};
use crate::runtime::engine::http_routes::RouteTarget;
use crate::runtime::{EventRequest, Idempotency};
use crate::spool::{RequestFiles, Spool, SpoolFile};
use crate::store::instance::Generation;
use crate::testing::TestDatabase;
use crate::{Engine, Result, check};

/// Begins the workflow or waits; what it receives is in the variable `Got`.
struct Entry;

impl Activity for Entry {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Test.Entry").kind(ActivityKind::Trigger)
    }

    fn trigger_payload(&self, _inputs: &Map<String, Value>) -> Option<Value> {
        Some(json!({}))
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        match context.started_by().cloned() {
            Some(payload) => {
                context.set_variable("Got", payload);
                Ok(Step::Done)
            }
            None => {
                context.bookmark(BookmarkRequest::new(json!({})));
                Ok(Step::Wait)
            }
        }
    }

    async fn resumed(&self, context: &mut ActivityContext<'_>, resumption: Resumption) -> Result<Step, Fault> {
        context.set_variable("Got", resumption.payload.unwrap_or_default());
        Ok(Step::Done)
    }
}

static ANSWERS: AtomicUsize = AtomicUsize::new(0);

/// Answers with its text, or so many bytes.
struct Says;

impl Activity for Says {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Test.Says")
            .input(InputDescriptor::new("Text", "String"))
            .input(InputDescriptor::new("Bytes", "Int32"))
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        ANSWERS.fetch_add(1, Relaxed);
        if context.answer_status() != AnswerStatus::Open {
            return Err(Fault::new("there is no request"));
        }
        let body = match context.input("Bytes").as_u64() {
            Some(bytes) => vec![b'x'; usize::try_from(bytes).unwrap_or_default()],
            None => context.text("Text").unwrap_or_default().into_bytes(),
        };
        context.answer(Answer {
            status: 201,
            headers: vec![("x-a".to_owned(), "1".to_owned()), ("x-a".to_owned(), "2".to_owned())],
            body: AnswerBody::Bytes(body),
        });
        Ok(Step::Done)
    }
}

fn literal(type_name: &str, value: &Value) -> Value {
    json!({"typeName": type_name, "expression": {"type": "Literal", "value": value}})
}

pub(super) fn says(id: &str) -> Value {
    let got = json!({"typeName": "String", "expression": {"type": "JavaScript", "value": format!("'{id} ' + variables.Got")}});
    json!({"id": id, "type": "Test.Says", "text": got})
}

fn event(name: &str) -> Value {
    json!({"id": format!("event-{name}"), "type": "Elsa.Event", "eventName": literal("String", &json!(name))})
}

pub(super) struct Web {
    pub(super) database: TestDatabase,
    pub(super) engine: Engine,
    /// How often `web` was published.
    published: AtomicI64,
}

impl Web {
    pub(super) async fn new() -> Self {
        let database = TestDatabase::create().await;
        let engine = node(&database, "one", 8).await;
        Self {
            database,
            engine,
            published: AtomicI64::new(0),
        }
    }

    pub(super) fn url(&self) -> String {
        self.database.url()
    }

    pub(super) async fn beside(&self, workers: usize) -> Engine {
        node(&self.database, "beside", workers).await
    }

    /// A request that starts the workflow as it was published last.
    pub(super) fn start(&self) -> HttpRun {
        start_of(self.published.load(Relaxed))
    }

    /// Publishes a workflow that begins at an entry.
    pub(super) async fn publish(&self, activities: &[Value]) {
        let mut all =
            vec![json!({"id": "entry", "type": "Test.Entry", "customProperties": {"canStartWorkflow": true}})];
        all.extend_from_slice(activities);
        let model = json!({
            "definitionId": "web",
            "variables": [{"id": "got", "name": "Got", "typeName": "Object"}],
            "root": {"id": "root", "type": "Elsa.Sequence", "activities": all},
        });
        let definition = WorkflowDefinition::from_value(model).unwrap();
        self.engine.save(definition, true).await.unwrap();
        self.published.fetch_add(1, Relaxed);
    }

    pub(super) async fn count(&self, what: &str) -> i64 {
        let client = self.database.connect().await;
        client.query_one(what, &[]).await.unwrap().get(0)
    }

    /// Waits until a count has this value.
    pub(super) async fn becomes(&self, what: &str, expected: i64) {
        let reached = async {
            while self.count(what).await != expected {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let reached = tokio::time::timeout(Duration::from_secs(20), reached).await;
        reached.unwrap_or_else(|_| panic!("{what} does not become {expected}"));
    }

    pub(super) async fn finish(self) {
        self.engine.shutdown().await;
        assert_eq!(check(&self.database.url(), "mainspring").await.unwrap(), []);
    }
}

const KEPT: &str = "SELECT count(*) FROM mainspring.http_answer";
const INSTANCES: &str = "SELECT count(*) FROM mainspring.instance";
const BOOKMARKS: &str = "SELECT count(*) FROM mainspring.bookmark";
const WORK: &str = "SELECT count(*) FROM mainspring.work";

async fn node(database: &TestDatabase, name: &str, workers: usize) -> Engine {
    node_at(&database.url(), name, workers).await
}

pub(super) async fn node_at(url: &str, name: &str, workers: usize) -> Engine {
    let builder = Engine::builder(url).node_id(name).workers(workers);
    builder
        .activity(Entry)
        .activity(Says)
        .activity(Gate)
        .start()
        .await
        .unwrap()
}

/// A request that starts the workflow as this revision has published it.
pub(super) fn start_of(revision: i64) -> HttpRun {
    request(RouteTarget::Start {
        definition_id: "web".into(),
        activity_id: "entry".into(),
        hash: stimulus_hash("Test.Entry", &json!({}), None),
        revision,
    })
}

fn request(target: RouteTarget) -> HttpRun {
    HttpRun {
        target,
        payload: json!("hello"),
        instance_id: None,
        correlation_id: None,
        idempotency: None,
        scope: "GET /web".to_owned(),
        files: RequestFiles::default(),
        wait_for_response: None,
        deadline: Instant::now() + Duration::from_secs(20),
    }
}

pub(super) fn keyed(run: HttpRun, key: &str, fingerprint: u8) -> HttpRun {
    HttpRun {
        idempotency: Some(Idempotency {
            key: key.to_owned(),
            fingerprint: [fingerprint; 32],
        }),
        ..run
    }
}

/// A resume of the only bookmark of an instance.
pub(super) async fn resume(engine: &Engine, id: &InstanceId) -> HttpRun {
    let (bookmark_id, generation): (_, Generation) = engine.bookmark_of(id, None).await.unwrap();
    HttpRun {
        payload: json!("again"),
        ..request(RouteTarget::Resume {
            instance_id: id.clone(),
            bookmark_id,
            generation,
        })
    }
}

pub(super) fn text(outcome: &HttpOutcome) -> String {
    match &outcome.end {
        HttpEnd::Answered(answer) => match &answer.body {
            AnswerBody::Bytes(bytes) => {
                assert_eq!((answer.status, answer.headers.len()), (201, 2));
                String::from_utf8(bytes.clone()).unwrap()
            }
            AnswerBody::File(_) => panic!("a file"),
        },
        other => format!("{other:?}"),
    }
}

async fn signal(engine: &Engine, name: &str) {
    let event = EventRequest {
        name: name.to_owned(),
        ..EventRequest::default()
    };
    engine.trigger_event(event).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_answered_after_the_commit_of_its_burst() {
    let web = Web::new().await;
    let mut waiting = None;
    let fault = json!({"id": "f", "type": "Elsa.Fault"});
    for (activities, wanted) in [
        (vec![says("a")], "a hello"),
        (vec![says("a"), fault.clone()], "a hello"),
        (vec![fault], "Faulted"),
        (vec![], "Finished"),
        (vec![json!({"id": "d", "type": "Test.Entry"}), says("b")], "Waiting"),
    ] {
        web.publish(&activities).await;
        let outcome = web.engine.run_request(web.start()).await.unwrap();
        assert_eq!(text(&outcome), wanted);
        let committed = web.engine.instance(&outcome.instance_id).await.unwrap();
        assert_ne!(committed.summary.sub_status, "Executing");
        waiting = Some(outcome.instance_id);
    }
    // Of two that resume one bookmark, one does.
    let id = waiting.unwrap();
    let (first, second) = (resume(&web.engine, &id).await, resume(&web.engine, &id).await);
    let (first, second) = tokio::join!(web.engine.run_request(first), web.engine.run_request(second));
    let (won, lost) = if first.is_ok() {
        (first, second)
    } else {
        (second, first)
    };
    assert_eq!(text(&won.unwrap()), "b again");
    assert_eq!(lost.unwrap_err().code(), "already-resumed");
    assert_eq!(web.count(KEPT).await, 0);
    web.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_another_node_reaches_the_client() {
    let web = Web::new().await;
    web.publish(&[json!({"id": "d", "type": "Test.Entry"}), says("b")])
        .await;
    let idle = web.beside(0).await;
    let outcome = idle.run_request(web.start()).await.unwrap();
    assert_eq!(text(&outcome), "Waiting");
    let run = resume(&idle, &outcome.instance_id).await;
    assert_eq!(text(&idle.run_request(run).await.unwrap()), "b again");
    assert_eq!(web.count(KEPT).await, 2);
    idle.shutdown().await;
    web.finish().await;
}

/// A large answer reaches a client only from its own node. The other node polls all the time, and claims most rows first.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_runs_at_its_node_also_if_another_node_claims_it_first() {
    let web = Web::new().await;
    let bytes = literal("Int32", &json!(1024 * 1024 + 1));
    let large = json!({"id": "l", "type": "Test.Says", "bytes": bytes});
    web.publish(&[json!({"id": "d", "type": "Test.Entry"}), large]).await;
    let beside = web.beside(8).await;
    let polls = tokio::spawn({
        let node = web.engine.node().unwrap();
        let mut pace = tokio::time::interval(Duration::from_millis(5));
        async move {
            loop {
                pace.tick().await;
                node.claims.wake_timer.wake_now();
            }
        }
    });
    for n in 0..8 {
        let chosen = HttpRun {
            instance_id: Some(InstanceId::new(format!("i{n}"))),
            ..web.start()
        };
        let waiting = beside.run_request(chosen).await.unwrap();
        assert_eq!(text(&waiting), "Waiting");
        let run = resume(&beside, &waiting.instance_id).await;
        let answered = beside.run_request(run).await.unwrap();
        assert_eq!(text(&answered).len(), 1024 * 1024 + 1, "{n}");
    }
    polls.abort();
    beside.shutdown().await;
    web.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_under_its_key_gets_the_stored_answer_at_any_node() {
    let web = Web::new().await;
    web.publish(&[says("a")]).await;
    let beside = web.beside(8).await;
    let first = web.engine.run_request(keyed(web.start(), "k", 1)).await.unwrap();
    assert_eq!(text(&first), "a hello");
    let unknown = Idempotency {
        key: "other".to_owned(),
        fingerprint: [1; 32],
    };
    let deadline = web.start().deadline;
    assert!(
        beside
            .repeat_request("GET /web", &unknown, false, deadline)
            .await
            .unwrap()
            .is_none()
    );
    for engine in [&web.engine, &beside] {
        let again = engine.run_request(keyed(web.start(), "k", 1)).await.unwrap();
        assert_eq!(
            (text(&again), &again.instance_id),
            ("a hello".to_owned(), &first.instance_id)
        );
        let given = keyed(web.start(), "k", 1).idempotency.unwrap();
        let again = engine
            .repeat_request("GET /web", &given, false, deadline)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            (text(&again), &again.instance_id),
            ("a hello".to_owned(), &first.instance_id)
        );
        let other = engine.run_request(keyed(web.start(), "k", 2)).await.unwrap_err();
        assert_eq!(other.code(), "idempotency-key-reused");
    }
    let elsewhere = HttpRun {
        scope: "GET /web as another client".to_owned(),
        ..keyed(web.start(), "k", 2)
    };
    let elsewhere = beside.run_request(elsewhere).await.unwrap();
    assert_ne!(elsewhere.instance_id, first.instance_id);
    assert_eq!(web.count(INSTANCES).await, 2);

    // What is too large is sent once, and not run again.
    let bytes = literal("Int32", &json!(1024 * 1024 + 1));
    web.publish(&[json!({"id": "l", "type": "Test.Says", "bytes": bytes})])
        .await;
    let large = beside.run_request(keyed(web.start(), "large", 1)).await.unwrap();
    assert_eq!(text(&large).len(), 1024 * 1024 + 1);
    let again = web.engine.run_request(keyed(web.start(), "large", 1)).await.unwrap();
    assert_eq!(text(&again), "NotKept");
    beside.shutdown().await;
    web.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_waits_for_the_first_request_and_survives_its_node() {
    let web = Web::new().await;
    web.publish(&[
        json!({"id": "d", "type": "Elsa.Delay", "timeSpan": "00:00:01"}),
        says("a"),
    ])
    .await;
    let held = |key: &str| HttpRun {
        wait_for_response: Some(Duration::from_secs(15)),
        ..keyed(web.start(), key, 1)
    };
    let beside = web.beside(8).await;
    // The node that took it ends as by a crash.
    let lost = tokio::spawn({
        let run = held("k");
        async move { beside.run_request(run).await }
    });
    web.becomes(INSTANCES, 1).await;
    lost.abort();
    assert!(lost.await.unwrap_err().is_cancelled());
    let again = web.engine.run_request(held("k")).await.unwrap();
    assert_eq!(text(&again), "a hello");
    assert_eq!(web.count(INSTANCES).await, 1);

    // Two at once are one.
    let (one, two) = tokio::join!(
        web.engine.run_request(held("both")),
        web.engine.run_request(held("both"))
    );
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!((text(&one), one.instance_id), (text(&two), two.instance_id));
    web.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_request_is_answered_by_a_later_burst_of_any_node() {
    let web = Web::new().await;
    web.publish(&[event("go"), says("late")]).await;
    let idle = web.beside(0).await;
    let held = |wait| HttpRun {
        wait_for_response: Some(Duration::from_millis(wait)),
        ..web.start()
    };
    for engine in [&web.engine, &idle] {
        let run = tokio::spawn({
            let (engine, run) = (engine.clone(), held(15_000));
            async move { engine.run_request(run).await }
        });
        web.becomes(BOOKMARKS, 1).await;
        assert!(!run.is_finished());
        signal(&web.engine, "go").await;
        assert_eq!(text(&run.await.unwrap().unwrap()), "late hello");
    }
    // At its end the client learns that the instance waits.
    let outcome = web.engine.run_request(held(300)).await.unwrap();
    assert_eq!(text(&outcome), "Waiting");
    signal(&web.engine, "go").await;
    let id = outcome.instance_id;
    let faults = async {
        while web.engine.instance(&id).await.unwrap().summary.sub_status != "Faulted" {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), faults).await.unwrap();
    idle.shutdown().await;
    web.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_held_request_is_found_without_a_hint() {
    let web = Web::new().await;
    web.publish(&[event("go"), says("late")]).await;
    let run = tokio::spawn({
        let engine = web.engine.clone();
        let run = HttpRun {
            wait_for_response: Some(Duration::from_secs(15)),
            ..web.start()
        };
        async move { engine.run_request(run).await }
    });
    let client = web.database.connect().await;
    // What the commit of a node without hints leaves.
    let writes = "INSERT INTO mainspring.http_answer (request_id, tenant_id, instance_id, outcome)
                  SELECT (convert_from(state, 'UTF8')::json->'requests'->0->>'id')::uuid, tenant_id, id, 1
                  FROM mainspring.instance WHERE sub_status = 2";
    while client.execute(writes, &[]).await.unwrap() == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(text(&run.await.unwrap().unwrap()), "Finished");
    // No commit of this instance leaves it.
    client.execute("DELETE FROM mainspring.http_answer", &[]).await.unwrap();
    web.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_an_end_is_pending_at_its_deadline() {
    let web = Web::new().await;
    web.publish(&[says("a")]).await;
    web.engine.shutdown().await;
    let idle = web.beside(0).await;
    let run = HttpRun {
        deadline: Instant::now() + Duration::from_millis(400),
        ..web.start()
    };
    let outcome = idle.run_request(run).await.unwrap();
    assert_eq!(text(&outcome), "Pending");
    assert_eq!(web.count(WORK).await, 1);
    idle.shutdown().await;
}

pub(super) async fn file() -> SpoolFile {
    let mut writer = Spool::default().create().await.unwrap();
    writer.write(b"large").await.unwrap();
    writer.finish().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_is_lost_is_not_pending() {
    let web = Web::new().await;
    web.publish(&[says("a")]).await;
    web.engine.shutdown().await;
    let idle = web.beside(0).await;
    let run = HttpRun {
        deadline: Instant::now() + Duration::from_secs(5),
        ..web.start()
    };
    let client = web.database.connect().await;
    let lose = async {
        // As a crash of the server loses what was not flushed.
        while client.execute("DELETE FROM mainspring.work", &[]).await.unwrap() == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let (ended, ()) = tokio::join!(idle.run_request(run), lose);
    let error = ended.unwrap_err();
    assert!(error.is_not_found(), "{error}");
    idle.shutdown().await;
}
