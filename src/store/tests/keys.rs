//! A request with an idempotency key is accepted once, even if many are sent at the same time.

use std::sync::Arc;

use serde_json::json;
use tokio_util::task::AbortOnDropHandle;

use super::definitions::{definition, start};
use crate::db::Session;
use crate::id::{InstanceId, TenantId};
use crate::store::definition::StartSources;
use crate::store::request::IdempotencyKey;
use crate::store::start::{AcceptedStart, Acceptor, NewStart};
use crate::store::work::AcceptedResume;
use crate::store::{definition as definitions, work};
use crate::testing::store::{Fixture, Writer, burst, waiting};

pub(super) async fn acceptor(fixture: &Fixture) -> (Acceptor, AbortOnDropHandle<()>, Writer) {
    let writer = fixture.writer().await;
    let class = fixture.base.schema().lock_class();
    definitions::save(&writer.pool, class, &definition("n"), Some(StartSources::by(&[])))
        .await
        .unwrap();
    let (acceptor, task) = Acceptor::start(&writer.connector, &writer.pool, writer.incarnation, false);
    (acceptor, task, writer)
}

#[tokio::test]
async fn one_key_starts_one_instance() {
    let fixture = Fixture::new().await;
    let (one, _one, _) = acceptor(&fixture).await;
    let (two, _two, _) = acceptor(&fixture).await;
    let mut tasks = Vec::new();
    for n in 0..8 {
        let acceptor = if n % 2 == 0 { one.clone() } else { two.clone() };
        tasks.push(tokio::spawn(async move {
            let instance = format!("i{n}");
            match acceptor.accept(start(&instance, Some("k"))).await.unwrap() {
                AcceptedStart::New { .. } => (true, instance),
                AcceptedStart::Existing { instance } => (false, instance.into()),
            }
        }));
    }
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.unwrap());
    }
    assert_eq!(answers.iter().filter(|(new, _)| *new).count(), 1);
    assert!(
        answers.windows(2).all(|pair| pair[0].1 == pair[1].1),
        "all answers name the same instance: {answers:?}"
    );
    assert_eq!(fixture.count("SELECT count(*) FROM work").await, 1);
    let mut other = start("other", Some("k"));
    other.request.as_mut().unwrap().fingerprint = vec![1; 32];
    let error = one.accept(other).await.unwrap_err();
    assert!(error.is_unprocessable(), "{error}");
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_taken_instance_id_is_refused_and_leaves_no_trace() {
    let fixture = Fixture::new().await;
    let (acceptor, _task, writer) = acceptor(&fixture).await;
    writer.commits(waiting(burst("there", None), "b", 7)).await;
    // A chosen id is requested here; a start that is inserted claimed has a generated one.
    let start = |instance: &str, key| NewStart {
        has_chosen_id: true,
        claimed: false,
        ..start(instance, key)
    };
    acceptor.accept(start("pending", None)).await.unwrap();
    for taken in ["there", "pending"] {
        let error = acceptor.accept(start(taken, Some("k"))).await.unwrap_err();
        assert_eq!(error.code(), "instance-id-taken");
    }
    assert_eq!(fixture.count("SELECT count(*) FROM idempotency_key").await, 0);
    assert_eq!(fixture.count("SELECT count(*) FROM work").await, 1);
    assert!(matches!(
        acceptor.accept(start("free", Some("k"))).await.unwrap(),
        AcceptedStart::New { .. }
    ));
    fixture.is_sound().await;
}

#[tokio::test]
async fn one_key_resumes_once() {
    let fixture = Fixture::new().await;
    let writer = Arc::new(fixture.writer().await);
    writer.commits(waiting(burst("i", None), "b", 7)).await;
    let request = |fingerprint: u8| IdempotencyKey {
        route: "resume",
        key: "k".to_owned(),
        fingerprint: vec![fingerprint; 32],
    };
    let resume = |request: IdempotencyKey| {
        let writer = Arc::clone(&writer);
        tokio::spawn(async move {
            let (tenant, instance) = (TenantId::default(), InstanceId::new("i"));
            work::accept_resume(&writer.pool, &tenant, &instance, &json!({}), Some(&request), None).await
        })
    };
    let tasks: Vec<_> = (0..8).map(|_| resume(request(0))).collect();
    let (mut new, mut before) = (Vec::new(), Vec::new());
    for task in tasks {
        match task.await.unwrap().unwrap() {
            AcceptedResume::New(work) => new.push(work),
            AcceptedResume::Existing(work) => before.extend(work),
        }
    }
    assert_eq!((new.len(), before.len()), (1, 7));
    assert!(before.iter().all(|work| *work == new[0]), "{new:?} {before:?}");
    let row = fixture.count("SELECT id FROM work").await;
    assert_eq!(row, new[0].0);
    assert_eq!(fixture.count("SELECT count(*) FROM work").await, 1);
    let error = resume(request(1)).await.unwrap().unwrap_err();
    assert!(error.is_unprocessable(), "{error}");
    fixture.is_sound().await;
}

/// Keys and instance ids are taken in their order, so that two acceptors never deadlock.
#[tokio::test]
async fn acceptors_insert_in_one_order() {
    let fixture = Fixture::new().await;
    let (acceptor, _task, _writer) = acceptor(&fixture).await;
    let request = |key: &str| {
        format!("INSERT INTO idempotency_key (tenant_id, route, key, fingerprint) VALUES ('', 'start', '{key}', '')")
    };
    let work = |id: &str| {
        format!(
            "INSERT INTO work (tenant_id, instance_id, kind, definition_id, body) VALUES ('', '{id}', 0, 'd', '{{}}')"
        )
    };
    let begin = async |sql: String| -> Session {
        let session = fixture.session().await;
        let sql = format!("BEGIN; SET LOCAL lock_timeout = 200; {sql}");
        session
            .client
            .batch_execute(&sql)
            .await
            .expect("already taken by a statement that waits");
        session
    };
    for (round, row) in [&request as &dyn Fn(&str) -> String, &work].into_iter().enumerate() {
        // The first keeps the lane in flight, so that the other two are in one batch, in the wrong order.
        let id = |name: &str| format!("{name}{round}");
        let occupied = begin(row(&id("o"))).await;
        let competitor = begin(row(&id("a"))).await;
        let send = |name: &str| {
            let (acceptor, name) = (acceptor.clone(), id(name));
            tokio::spawn(async move { acceptor.accept(start(&name, Some(&name))).await.unwrap() })
        };
        let in_flight = send("o");
        fixture.a_session_waits().await;
        let starts = [send("b"), send("a")];
        // They are sent while this waits for its answer.
        occupied.client.batch_execute("ROLLBACK").await.unwrap();
        in_flight.await.unwrap();
        fixture.a_session_waits().await;
        let probe = begin(row(&id("b"))).await;
        probe.client.batch_execute("ROLLBACK").await.unwrap();
        competitor.client.batch_execute("ROLLBACK").await.unwrap();
        for start in starts {
            start.await.unwrap();
        }
    }
    assert_eq!(fixture.count("SELECT count(*) FROM work").await, 6);
    fixture.is_sound().await;
}
