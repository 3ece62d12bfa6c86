//! Each pair of transactions that fit each other shares a stimulus key, in both orders; others do not wait for each other.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use serde_json::json;

use super::definitions::{definition, trigger};
use crate::db::Session;
use crate::id::{DefinitionId, InstanceId, StimulusHash, TenantId};
use crate::store::commit::{CommitOutcome, CommitRequest, WaitingBookmark};
use crate::store::dead_letter::stimulus;
use crate::store::definition::{self, StartSources};
use crate::store::event::{self, NewEvent};
use crate::store::maintenance;
use crate::store::stimulus_key::{KeySet, LOCK};
use crate::testing::store::{self, Fixture, Writer, burst, waiting};

const ORDER: &str = "order";
const LIFETIME: Duration = Duration::from_secs(60);

/// What makes an event fit that did not fit before.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Waiter {
    Bookmark,
    CorrelatedBookmark,
    /// An instance that waits takes the correlation id.
    Correlation,
    Trigger,
}

/// Whom an event is for: an instance, a correlation id, an activity execution.
#[derive(Clone, Copy, Debug)]
struct Target {
    instance: bool,
    correlated: bool,
    execution: bool,
}

const ALL: Target = Target {
    instance: false,
    correlated: false,
    execution: false,
};
const CORRELATED: Target = Target {
    correlated: true,
    ..ALL
};
const INSTANCE: Target = Target { instance: true, ..ALL };
const BOTH: Target = Target {
    instance: true,
    ..CORRELATED
};
const EXECUTION: Target = Target { execution: true, ..ALL };
const CORRELATED_EXECUTION: Target = Target {
    execution: true,
    ..CORRELATED
};

/// Stops each transaction at its end that writes an instance, an event of the inbox or a trigger while `gate` is locked.
const GATE: &str = "CREATE TABLE gate (no integer);
    INSERT INTO gate VALUES (1);
    CREATE FUNCTION pass() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM 1 FROM gate FOR KEY SHARE; RETURN NULL; END';
    CREATE CONSTRAINT TRIGGER pass AFTER INSERT OR UPDATE ON instance DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION pass();
    CREATE CONSTRAINT TRIGGER pass AFTER INSERT ON inbox DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION pass();
    CREATE CONSTRAINT TRIGGER pass AFTER INSERT ON trigger DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION pass()";

fn published(key: &str, instance: &str, hash: u8, target: Target) -> NewEvent {
    NewEvent {
        payload: Some(json!({"said": key})),
        correlation_id: target.correlated.then(|| ORDER.to_owned()),
        instance: target.instance.then(|| InstanceId::new(instance)),
        activity_execution_id: target.execution.then(|| "e".to_owned()),
        ..store::event(key, hash)
    }
}

fn correlated(mut request: CommitRequest) -> CommitRequest {
    request.effects.correlation_id = Some(ORDER.to_owned());
    request
}

/// The change of the correlation id of an instance whose bookmark stays.
fn correlates(instance: &str, hash: u8) -> CommitRequest {
    let mut request = correlated(burst(instance, Some(1)));
    (request.effects.status, request.effects.sub_status) = (0, 2);
    request.effects.rematched = vec![WaitingBookmark {
        bookmark: "b".to_owned(),
        hash: StimulusHash([hash; 32]),
    }];
    request
}

struct Case {
    fixture: Fixture,
    writer: Arc<Writer>,
}

impl Case {
    async fn new() -> Self {
        let fixture = Fixture::new().await;
        let writer = Arc::new(fixture.writer().await);
        fixture.execute(GATE).await;
        Self { fixture, writer }
    }

    fn class(&self) -> i32 {
        self.fixture.base.schema().lock_class()
    }

    /// The transaction after which the event fits.
    fn begins(&self, waiter: Waiter, instance: &str, hash: u8) -> BoxFuture<'static, ()> {
        let (writer, class) = (Arc::clone(&self.writer), self.class());
        let request = match waiter {
            Waiter::Bookmark => waiting(burst(instance, None), "b", hash),
            Waiter::CorrelatedBookmark => correlated(waiting(burst(instance, None), "b", hash)),
            Waiter::Correlation => correlates(instance, hash),
            Waiter::Trigger => {
                let mut new = definition("n");
                new.definition_id = DefinitionId::new(instance);
                return async move {
                    let triggers = [trigger(hash)];
                    let saved = definition::save(&writer.pool, class, &new, Some(StartSources::by(&triggers))).await;
                    saved.unwrap();
                }
                .boxed();
            }
        };
        async move {
            let outcome = writer.write(request).await;
            assert!(matches!(outcome, CommitOutcome::Committed(_)), "{outcome:?}");
        }
        .boxed()
    }

    /// The publish of the event, or the replay of its dead letter.
    async fn publishes(&self, event: NewEvent, is_replay: bool) -> BoxFuture<'static, ()> {
        let (pool, class) = (self.writer.pool.clone(), self.class());
        if !is_replay {
            return async move {
                event::publish(&pool, class, &event).await.unwrap();
            }
            .boxed();
        }
        event::publish(&pool, class, &event).await.unwrap();
        self.fixture.execute("UPDATE inbox SET expires_at = now()").await;
        maintenance::purge_expired(&pool, LIFETIME).await.unwrap();
        let id = self.writer.dead_letters().await[0].id;
        async move {
            let replayed = stimulus::replay(&pool, class, &TenantId::default(), id, LIFETIME).await;
            replayed.unwrap().unwrap().fanout.unwrap();
        }
        .boxed()
    }

    /// Runs both, the first up to its end before the second begins. A second one that shares no key ends meanwhile.
    async fn in_order(&self, first: BoxFuture<'static, ()>, second: BoxFuture<'static, ()>) {
        let blocker = self.fixture.begin("SELECT 1 FROM gate FOR UPDATE").await;
        let first = tokio::spawn(first);
        self.fixture.so_many_wait(1).await;
        let second = tokio::spawn(second);
        let waits = self.fixture.so_many_wait(2);
        tokio::pin!(waits);
        while !second.is_finished() && (&mut waits).now_or_never().is_none() {
            tokio::task::yield_now().await;
        }
        blocker.client.batch_execute("ROLLBACK").await.unwrap();
        first.await.unwrap();
        second.await.unwrap();
    }

    async fn never_miss(&self, waiter: Waiter, targets: &[(Target, bool)]) {
        let mut number = 10;
        for (target, is_replay) in targets {
            for event_first in [false, true] {
                number += 1;
                let name = format!("{waiter:?}, {target:?}, replay {is_replay}, event first {event_first}");
                let instance = format!("i{number}");
                if waiter == Waiter::Correlation {
                    self.writer.commits(waiting(burst(&instance, None), "b", number)).await;
                }
                let event = published(&name, &instance, number, *target);
                let publishes = self.publishes(event, *is_replay).await;
                let begins = self.begins(waiter, &instance, number);
                if event_first {
                    self.in_order(publishes, begins).await;
                } else {
                    self.in_order(begins, publishes).await;
                }
                self.fixture.match_inbox(&self.writer.pool).await;
                let rows = format!("SELECT count(*) FROM work WHERE body->'payload'->>'said' = '{name}'");
                let kept = "SELECT count(*) FROM inbox";
                let found = (self.fixture.count(&rows).await, self.fixture.count(kept).await);
                assert_eq!(found, (1, 0), "rows of work and of the inbox: {name}");
                self.fixture.execute("DELETE FROM work").await;
            }
        }
        self.fixture.is_sound().await;
    }
}

#[tokio::test]
async fn a_new_bookmark_and_a_publisher_never_miss_each_other() {
    let targets = [
        (ALL, false),
        (INSTANCE, false),
        (EXECUTION, false),
        (INSTANCE, true),
        (EXECUTION, true),
    ];
    Case::new().await.never_miss(Waiter::Bookmark, &targets).await;
}

#[tokio::test]
async fn a_new_bookmark_of_a_correlated_instance_and_a_publisher_never_miss_each_other() {
    let targets = [
        (ALL, false),
        (CORRELATED, false),
        (INSTANCE, false),
        (BOTH, false),
        (CORRELATED_EXECUTION, false),
        (CORRELATED, true),
        (BOTH, true),
    ];
    let case = Case::new().await;
    case.never_miss(Waiter::CorrelatedBookmark, &targets).await;
}

#[tokio::test]
async fn a_new_correlation_id_and_a_publisher_never_miss_each_other() {
    let targets = [
        (CORRELATED, false),
        (CORRELATED_EXECUTION, false),
        (BOTH, false),
        (CORRELATED, true),
        (BOTH, true),
    ];
    Case::new().await.never_miss(Waiter::Correlation, &targets).await;
}

#[tokio::test]
async fn a_new_trigger_and_a_publisher_never_miss_each_other() {
    let targets = [(ALL, false), (CORRELATED, false), (CORRELATED, true)];
    Case::new().await.never_miss(Waiter::Trigger, &targets).await;
}

/// A session that holds the keys of the publisher of an event.
async fn holds(fixture: &Fixture, event: &NewEvent) -> Session {
    let session = fixture.session().await;
    let can_start = event.instance.is_none() && event.activity_execution_id.is_none();
    let correlation_id = event.correlation_id.as_deref();
    let (keys, modes) = KeySet::of_publisher(&event.hash, correlation_id, event.instance.as_ref(), can_start).columns();
    session.client.batch_execute("BEGIN").await.unwrap();
    let class = fixture.base.schema().lock_class();
    session.client.query(LOCK, &[&class, &keys, &modes]).await.unwrap();
    session
}

#[tokio::test]
async fn transactions_that_cannot_fit_each_other_do_not_wait() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    let class = fixture.base.schema().lock_class();
    let other = |key: &str| NewEvent {
        correlation_id: Some("other".to_owned()),
        ..store::event(key, 9)
    };
    let no_other_waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";

    // Beside a publisher for another correlation id.
    let publisher = holds(&fixture, &other("held")).await;
    let in_time = async {
        writer.commits(waiting(burst("a", None), "b", 9)).await;
        writer.commits(correlated(waiting(burst("b", None), "b", 9))).await;
        for (key, target) in [("c", CORRELATED), ("i", INSTANCE), ("e", ALL), ("x", BOTH)] {
            event::publish(&writer.pool, class, &published(key, "i", 9, target))
                .await
                .unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(60), in_time).await.unwrap();
    assert_eq!(fixture.count(no_other_waits).await, 0);
    publisher.client.batch_execute("ROLLBACK").await.unwrap();

    // Beside a publisher for an instance: one for another instance and a bookmark elsewhere, and a new trigger.
    let publisher = holds(&fixture, &published("held", "i", 9, INSTANCE)).await;
    let in_time = async {
        writer.commits(waiting(burst("d", None), "b", 9)).await;
        for target in [INSTANCE, CORRELATED, ALL] {
            event::publish(&writer.pool, class, &published("j", "j", 9, target))
                .await
                .unwrap();
        }
        let triggers = [trigger(9)];
        let sources = Some(StartSources::by(&triggers));
        definition::save(&writer.pool, class, &definition("n"), sources)
            .await
            .unwrap();
    };
    tokio::time::timeout(Duration::from_secs(60), in_time).await.unwrap();
    publisher.client.batch_execute("ROLLBACK").await.unwrap();

    // Beside a commit of a new bookmark: another one, and publishers for others.
    let blocker = fixture.stop_at("a").await;
    let writer = Arc::new(writer);
    let begins = store::spawn(&writer, waiting(burst("a", Some(1)), "c", 9));
    fixture.a_session_waits().await;
    let second = fixture.writer().await;
    let in_time = async {
        second.commits(waiting(burst("f", None), "b", 9)).await;
        for (key, target) in [("y", CORRELATED), ("z", INSTANCE)] {
            event::publish(&writer.pool, class, &published(key, "i", 9, target))
                .await
                .unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(60), in_time).await.unwrap();
    blocker.client.batch_execute("ROLLBACK").await.unwrap();
    assert!(matches!(begins.await.unwrap(), CommitOutcome::Committed(_)));
    fixture.is_sound().await;
}
