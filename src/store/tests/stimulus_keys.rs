//! Each pair of matching transactions shares a stimulus key, in both orders; others do not wait for each other.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use serde_json::json;

use super::definitions::{definition, trigger};
use crate::db::Session;
use crate::id::{DefinitionId, FanOutId, InstanceId, StimulusHash, TenantId};
use crate::store::commit::{BookmarkRow, CommitOutcome, CommitRequest, WaitingBookmark};
use crate::store::dead_letter::stimulus;
use crate::store::definition::retract::{RetractOutcome, retract};
use crate::store::definition::{self, StartSources};
use crate::store::event::{self, NewEvent};
use crate::store::fan_out::{self, FanOutPage, FanOutStep};
use crate::store::maintenance;
use crate::store::stimulus_key::LOCK;
use crate::testing::store::{self, Fixture, Writer, burst, waiting};

const ORDER: &str = "order";
const LIFETIME: Duration = Duration::from_secs(60);

/// What makes an event fit that did not fit before.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Waiter {
    Bookmark,
    CorrelatedBookmark,
    /// One of so many that they take too many keys.
    ManyBookmarks,
    /// An instance that waits takes the correlation id.
    Correlation,
    /// One with another correlation id takes it.
    OtherCorrelation,
    Trigger,
    /// The trigger that the event fits is retracted.
    Retract,
}

/// Whom an event is for: an instance, a correlation id, an activity execution.
#[derive(Clone, Copy, Debug)]
struct Target {
    instance: bool,
    correlated: Option<&'static str>,
    execution: Option<Execution>,
}

/// How an event names an activity execution.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Execution {
    /// By an id that names its instance.
    OfInstance,
    /// By another text.
    Other,
}

/// How an event comes to those that it fits.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Publish,
    /// The replay of its dead letter.
    Replay,
    /// The turn of its fan-out, and the pages.
    Turn,
}
use Way::{Publish, Replay, Turn};

const ALL: Target = Target {
    instance: false,
    correlated: None,
    execution: None,
};
const CORRELATED: Target = Target {
    correlated: Some(ORDER),
    ..ALL
};
/// An empty correlation id is one.
const EMPTY: Target = Target {
    correlated: Some(""),
    ..ALL
};
const INSTANCE: Target = Target { instance: true, ..ALL };
const BOTH: Target = Target {
    instance: true,
    ..CORRELATED
};
const EXECUTION: Target = Target {
    execution: Some(Execution::OfInstance),
    ..ALL
};
const CORRELATED_EXECUTION: Target = Target {
    execution: Some(Execution::OfInstance),
    ..CORRELATED
};
const OTHER_EXECUTION: Target = Target {
    execution: Some(Execution::Other),
    ..ALL
};
const CORRELATED_OTHER_EXECUTION: Target = Target {
    execution: Some(Execution::Other),
    ..CORRELATED
};

/// Stops each transaction at its end that writes an instance, an event of the inbox, a trigger, a start or a turn while `gate` is
/// locked.
const GATE: &str = "CREATE TABLE gate (no integer);
    INSERT INTO gate VALUES (1);
    CREATE FUNCTION pass() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM 1 FROM gate FOR KEY SHARE; RETURN NULL; END';
    CREATE CONSTRAINT TRIGGER pass AFTER INSERT OR UPDATE ON instance DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION pass();
    CREATE CONSTRAINT TRIGGER pass AFTER INSERT ON inbox DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION pass();
    CREATE CONSTRAINT TRIGGER pass AFTER INSERT OR DELETE ON trigger DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION pass();
    CREATE CONSTRAINT TRIGGER pass AFTER INSERT ON work DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW WHEN (NEW.kind = 0) EXECUTE FUNCTION pass();
    CREATE CONSTRAINT TRIGGER pass AFTER UPDATE ON fan_out DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION pass()";

/// The id of the execution that waits.
fn execution(instance: &str, target: Target) -> String {
    match target.execution {
        Some(Execution::Other) => "e".to_owned(),
        _ => format!("{instance}:1"),
    }
}

fn published(key: &str, instance: &str, hash: u8, target: Target) -> NewEvent {
    NewEvent {
        payload: Some(json!({"said": key})),
        correlation_id: target.correlated.map(str::to_owned),
        instance: target.instance.then(|| InstanceId::new(instance)),
        activity_execution_id: target.execution.map(|_| execution(instance, target)),
        ..store::event(key, hash)
    }
}

fn correlated(mut request: CommitRequest, target: Target) -> CommitRequest {
    request.effects.correlation_id = Some(target.correlated.unwrap_or(ORDER).to_owned());
    request
}

/// A new instance that waits.
fn waits(instance: &str, hash: u8, target: Target) -> CommitRequest {
    let mut request = waiting(burst(instance, None), "b", hash);
    request.effects.bookmarks_made[0].activity_execution_id = execution(instance, target);
    request
}

/// So many different stimuli that their keys are too many.
const MANY: u32 = 2000;

/// Further bookmarks for so many stimuli of their own.
fn many(mut request: CommitRequest, count: u32) -> CommitRequest {
    let first = request.effects.bookmarks_made[0].clone();
    let others = (0..count).map(|n| {
        let mut hash = vec![5; 32];
        hash[..4].copy_from_slice(&n.to_be_bytes());
        BookmarkRow {
            id: format!("z{n}"),
            activity_id: format!("a{n}"),
            hash,
            ..first.clone()
        }
    });
    request.effects.bookmarks_made.extend(others);
    request
}

/// The change of the correlation id of an instance whose bookmark stays.
fn correlates(instance: &str, hash: u8, target: Target) -> CommitRequest {
    let mut request = correlated(burst(instance, Some(1)), target);
    (request.effects.status, request.effects.sub_status) = (0, 2);
    request.effects.rematched = vec![WaitingBookmark {
        bookmark: "b".to_owned(),
        hash: StimulusHash([hash; 32]),
    }];
    request
}

async fn publish_trigger(writer: &Writer, class: i32, id: DefinitionId, hash: u8) {
    let mut new = definition("n");
    new.definition_id = id;
    let triggers = [trigger(hash)];
    let saved = definition::save(&writer.pool, class, &new, Some(StartSources::by(&triggers))).await;
    saved.unwrap();
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
    fn begins(&self, waiter: Waiter, instance: &str, hash: u8, target: Target) -> BoxFuture<'static, ()> {
        let (writer, class) = (Arc::clone(&self.writer), self.class());
        let request = match waiter {
            Waiter::Bookmark => waits(instance, hash, target),
            Waiter::CorrelatedBookmark => correlated(waits(instance, hash, target), target),
            Waiter::ManyBookmarks => many(correlated(waits(instance, hash, target), target), MANY),
            Waiter::Correlation | Waiter::OtherCorrelation => correlates(instance, hash, target),
            Waiter::Trigger => {
                let id = DefinitionId::new(instance);
                return async move { publish_trigger(&writer, class, id, hash).await }.boxed();
            }
            Waiter::Retract => {
                let id = DefinitionId::new(instance);
                return async move {
                    let retracted = retract(&writer.pool, class, &TenantId::default(), &id, false).await;
                    assert!(matches!(retracted.unwrap(), RetractOutcome::Retracted(_)));
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

    /// What brings the event to those that it fits.
    async fn publishes(&self, event: NewEvent, way: Way) -> BoxFuture<'static, ()> {
        let (pool, class) = (self.writer.pool.clone(), self.class());
        if way == Publish {
            return async move {
                event::publish(&pool, class, &event).await.unwrap();
            }
            .boxed();
        }
        if way == Turn {
            self.defers(&event).await;
            return async move {
                loop {
                    let step = fan_out::step(&pool, class, FanOutId(0), &[], |_| FanOutPage::Rows(10)).await;
                    if step.unwrap().1 == FanOutStep::Idle {
                        break;
                    }
                }
            }
            .boxed();
        }
        event::publish(&pool, class, &event).await.unwrap();
        self.fixture.execute("UPDATE inbox SET expires_at = now()").await;
        maintenance::purge_expired(&pool, maintenance::Retention::of(LIFETIME))
            .await
            .unwrap();
        let id = self.writer.dead_letters().await[0].id;
        async move {
            let replayed = stimulus::replay(&pool, class, &TenantId::default(), id, LIFETIME).await;
            replayed.unwrap().unwrap().published.unwrap();
        }
        .boxed()
    }

    /// Makes a fan-out of the event, for which nothing waits yet.
    async fn defers(&self, event: &NewEvent) {
        let sql =
            "INSERT INTO fan_out (tenant_id, hash, name, payload, correlation_id, instance_id, activity_execution_id,
                                        expires_at)
                   VALUES ('', $1, $2, $3, $4, $5, $6, now() + interval '1 minute')";
        let target = event.target();
        let target = target.as_ref().map(InstanceId::as_str);
        let hash = event.hash.0.as_slice();
        let (correlation_id, execution) = (&event.correlation_id, &event.activity_execution_id);
        let client = &self.fixture.admin.client;
        client
            .execute(
                sql,
                &[&hash, &event.name, &event.payload, correlation_id, &target, execution],
            )
            .await
            .unwrap();
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

    async fn never_miss(&self, waiter: Waiter, targets: &[(Target, Way)]) {
        let mut number = 10;
        for (target, way) in targets {
            for event_first in [false, true] {
                number += 1;
                let name = format!("{waiter:?}, {target:?}, {way:?}, event first {event_first}");
                let instance = format!("i{number}");
                match waiter {
                    Waiter::Correlation => {
                        self.writer.commits(waits(&instance, number, *target)).await;
                    }
                    Waiter::OtherCorrelation => {
                        let mut before = waits(&instance, number, *target);
                        before.effects.correlation_id = Some("before".to_owned());
                        self.writer.commits(before).await;
                    }
                    Waiter::Retract => {
                        publish_trigger(&self.writer, self.class(), DefinitionId::new(&*instance), number).await;
                    }
                    _ => {}
                }
                let expected = if waiter == Waiter::Retract && !event_first {
                    (0, 1)
                } else {
                    (1, 0)
                };
                let event = published(&name, &instance, number, *target);
                let publishes = self.publishes(event, *way).await;
                let begins = self.begins(waiter, &instance, number, *target);
                if event_first {
                    self.in_order(publishes, begins).await;
                } else {
                    self.in_order(begins, publishes).await;
                }
                self.fixture.match_inbox(&self.writer.pool).await;
                let rows = format!(
                    "SELECT count(*) FROM work w LEFT JOIN fan_out f ON f.id = w.fan_out
                     WHERE coalesce(w.body->'payload', f.payload)->>'said' = '{name}'"
                );
                let kept = "SELECT count(*) FROM inbox";
                let found = (self.fixture.count(&rows).await, self.fixture.count(kept).await);
                assert_eq!(found, expected, "rows of work and of the inbox: {name}");
                self.fixture.is_sound().await;
                self.fixture.execute("DELETE FROM work; DELETE FROM inbox").await;
            }
        }
        self.fixture.is_sound().await;
    }
}

#[tokio::test]
async fn a_new_bookmark_and_a_publisher_never_miss_each_other() {
    let targets = [
        (ALL, Publish),
        (INSTANCE, Publish),
        (EXECUTION, Publish),
        (INSTANCE, Replay),
        (EXECUTION, Replay),
        (ALL, Turn),
        (INSTANCE, Turn),
        (EXECUTION, Turn),
    ];
    Case::new().await.never_miss(Waiter::Bookmark, &targets).await;
}

#[tokio::test]
async fn a_new_bookmark_of_a_correlated_instance_and_a_publisher_never_miss_each_other() {
    let targets = [
        (ALL, Publish),
        (CORRELATED, Publish),
        (EMPTY, Publish),
        (INSTANCE, Publish),
        (BOTH, Publish),
        (CORRELATED_EXECUTION, Publish),
        (CORRELATED, Replay),
        (EMPTY, Replay),
        (BOTH, Replay),
        (CORRELATED_EXECUTION, Replay),
        (EMPTY, Turn),
        (CORRELATED, Turn),
        (BOTH, Turn),
        (CORRELATED_EXECUTION, Turn),
    ];
    let case = Case::new().await;
    case.never_miss(Waiter::CorrelatedBookmark, &targets).await;
}

#[tokio::test]
async fn an_instance_that_waits_for_very_much_and_a_publisher_never_miss_each_other() {
    let targets = [
        (ALL, Publish),
        (CORRELATED, Publish),
        (INSTANCE, Publish),
        (BOTH, Replay),
        (CORRELATED, Turn),
    ];
    Case::new().await.never_miss(Waiter::ManyBookmarks, &targets).await;
}

#[tokio::test]
async fn the_keys_of_one_transaction_leave_room_in_the_lock_table() {
    let fixture = Fixture::new().await;
    let writer = Arc::new(fixture.writer().await);
    let advisory = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted
                    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    let before = fixture.count(advisory).await;
    writer.commits(burst("i", None)).await;
    let blocker = fixture.stop_at("i").await;
    let waits = waiting(burst("i", Some(1)), "b", 9);
    let begins = store::spawn(&writer, many(correlated(waits, CORRELATED), 5000));
    fixture.a_session_waits().await;
    let held = fixture.count(advisory).await - before;
    assert!(held <= 520, "{held} locks");
    blocker.client.batch_execute("ROLLBACK").await.unwrap();
    assert!(matches!(begins.await.unwrap(), CommitOutcome::Committed(_)));
    fixture.is_sound().await;
}

#[tokio::test]
async fn an_event_for_an_execution_that_names_no_instance_waits_for_nothing() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    let class = fixture.base.schema().lock_class();
    // Beside commits that begin to wait, and publishers for all.
    let held = holds(&fixture, &published("held", "i", 9, ALL)).await;
    for target in [OTHER_EXECUTION, CORRELATED_OTHER_EXECUTION] {
        let event = published(&format!("{target:?}"), "i", 9, target);
        let in_time = event::publish(&writer.pool, class, &event);
        let fanout = tokio::time::timeout(Duration::from_secs(20), in_time)
            .await
            .unwrap()
            .unwrap();
        assert!(fanout.kept);
    }
    held.client.batch_execute("ROLLBACK").await.unwrap();
    let kept = "SELECT count(*) FROM inbox WHERE instance_id IS NULL AND activity_execution_id = 'e'";
    assert_eq!(fixture.count(kept).await, 2);
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_new_correlation_id_and_a_publisher_never_miss_each_other() {
    let targets = [
        (CORRELATED, Publish),
        (EMPTY, Publish),
        (CORRELATED_EXECUTION, Publish),
        (BOTH, Publish),
        (CORRELATED, Replay),
        (EMPTY, Replay),
        (CORRELATED_EXECUTION, Replay),
        (BOTH, Replay),
        (CORRELATED, Turn),
        (EMPTY, Turn),
        (CORRELATED_EXECUTION, Turn),
        (BOTH, Turn),
    ];
    Case::new().await.never_miss(Waiter::Correlation, &targets).await;
}

#[tokio::test]
async fn another_correlation_id_and_a_publisher_never_miss_each_other() {
    let targets = [
        (CORRELATED, Publish),
        (EMPTY, Publish),
        (CORRELATED_EXECUTION, Publish),
        (BOTH, Replay),
        (CORRELATED, Turn),
    ];
    Case::new().await.never_miss(Waiter::OtherCorrelation, &targets).await;
}

#[tokio::test]
async fn a_new_trigger_and_a_publisher_never_miss_each_other() {
    let targets = [
        (ALL, Publish),
        (CORRELATED, Publish),
        (CORRELATED, Replay),
        (ALL, Turn),
        (CORRELATED, Turn),
    ];
    Case::new().await.never_miss(Waiter::Trigger, &targets).await;
}

#[tokio::test]
async fn a_retract_and_a_publisher_come_one_after_the_other() {
    let targets = [(ALL, Publish), (CORRELATED, Publish), (ALL, Turn), (CORRELATED, Turn)];
    Case::new().await.never_miss(Waiter::Retract, &targets).await;
}

/// A session that holds the keys of the publisher of an event.
async fn holds(fixture: &Fixture, event: &NewEvent) -> Session {
    let session = fixture.session().await;
    let (keys, modes) = event.keys().columns();
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
    let no_other_waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted \
                          AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

    // Beside a publisher for another correlation id.
    let publisher = holds(&fixture, &other("held")).await;
    let in_time = async {
        writer.commits(waiting(burst("a", None), "b", 9)).await;
        writer
            .commits(correlated(waiting(burst("b", None), "b", 9), CORRELATED))
            .await;
        for (key, target) in [("c", CORRELATED), ("i", INSTANCE), ("e", ALL), ("x", BOTH)] {
            event::publish(&writer.pool, class, &published(key, "i", 9, target))
                .await
                .unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(60), in_time).await.unwrap();
    assert_eq!(fixture.count(no_other_waits).await, 0);
    publisher.client.batch_execute("ROLLBACK").await.unwrap();

    // Beside a publisher for an instance, or for an execution in it: one for another instance and a bookmark elsewhere, and a
    // new trigger.
    for (held, instance) in [(INSTANCE, "d"), (EXECUTION, "g")] {
        let publisher = holds(&fixture, &published("held", "i", 9, held)).await;
        let in_time = async {
            writer.commits(waiting(burst(instance, None), "b", 9)).await;
            for target in [INSTANCE, EXECUTION, CORRELATED, ALL] {
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
    }

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
