//! A publish that changes the strategy of a workflow: no start gets past both the old and the new one.

use std::time::Duration;

use serde_json::json;
use tokio::sync::mpsc;

use super::activation::{Door, accept, correlated, correlating, publish, refused, suspended};
use super::definitions::start;
use crate::assert_outcome;
use crate::failpoint;
use crate::id::{DefinitionId, StimulusHash, TenantId};
use crate::store::commit::CommitOutcome;
use crate::store::definition::TriggerRow;
use crate::store::start::{Acceptor, StartForm};
use crate::store::{activation, dead_letter};
use crate::testing::store::burst;

/// Accepts a start by hand. With `held`, the statement waits in the middle: its snapshot is taken, and nothing written.
fn by_hand(accept: &str, body: &str, held: bool) -> String {
    let lock = if held {
        ", LATERAL pg_advisory_xact_lock_shared(4711) l"
    } else {
        ""
    };
    let row = format!("(row(0, '', 'rival', 'd', '{body}', NULL, NULL, NULL, false)::start_request)");
    accept
        .replace(
            "unnest($2::start_request[])",
            &format!("(SELECT (u.r).* FROM (SELECT {row} AS r OFFSET 0) u{lock})"),
        )
        .replace("$1::bigint", "NULL::bigint")
}

const SEEDING: &str = "SELECT count(*) FROM definition WHERE is_published AND seeding = 2";

/// The publisher looks whether the others are over, and finds that they are not; he does not go on.
async fn looks_again(points: &mut mpsc::UnboundedReceiver<String>) {
    let looks = async {
        let mut looks = 0;
        while looks < 2 {
            let point = points.recv().await.expect("the publish ended too early");
            assert_ne!(point, "activation.waited", "the publisher waits for nobody");
            looks += usize::from(point == "activation.waits");
        }
    };
    tokio::time::timeout(Duration::from_secs(60), looks)
        .await
        .expect("the publisher does not look");
}

/// A start under the old version is under way while another strategy is published. Those that come after wait for its
/// fate, and see it.
async fn under_way(strategy: &'static str, correlation: Option<&str>, held: bool, end: &str) {
    // All forms of the statement that accepts, as each meets the old version.
    let form = match strategy {
        "Singleton" => StartForm::Claimed,
        "CorrelatedSingleton" => StartForm::Unclaimed,
        _ => StartForm::Checked,
    };
    let statement = form.text(false, false);
    let door = Door::new("AllowAlways").await;
    let (rival, gate) = (door.fixture.session().await, door.fixture.session().await);
    let body = json!({ "correlationId": correlation }).to_string();
    gate.client
        .batch_execute("BEGIN; SELECT pg_advisory_xact_lock(4711)")
        .await
        .unwrap();
    rival.client.batch_execute("BEGIN").await.unwrap();
    let statement = by_hand(&statement, &body, held);
    let rival = tokio::spawn(async move {
        rival.client.batch_execute(&statement).await.unwrap();
        rival
    });
    if held {
        door.fixture.somebody_waits().await;
        let xids = "SELECT count(*) FROM pg_stat_activity
                    WHERE datname = current_database() AND wait_event_type = 'Lock' AND backend_xid IS NULL";
        assert_eq!(door.fixture.count(xids).await, 1, "it has written nothing yet");
    } else {
        let written = "SELECT count(*) FROM pg_stat_activity
                       WHERE datname = current_database() AND state = 'idle in transaction' AND backend_xid IS NOT NULL";
        door.fixture.until(1, written).await;
    }
    let start = correlated(start("late", None), correlation);
    let acceptor = door.acceptor.clone();
    let (passed, mut points) = mpsc::unbounded_channel();
    let publishes = failpoint::watched(passed, publish(&door.fixture, &door.writer, strategy, &[]));
    let goes_on = async {
        looks_again(&mut points).await;
        assert_eq!(door.fixture.count(SEEDING).await, 1);
        let late = tokio::spawn(async move { accept(&acceptor, start).await });
        gate.client.batch_execute("COMMIT").await.unwrap();
        let rival = rival.await.unwrap();
        // It has written by now, and is not over: the publisher still looks.
        while points.try_recv().is_ok() {}
        looks_again(&mut points).await;
        assert_eq!(door.fixture.count(SEEDING).await, 1);
        assert!(!late.is_finished(), "it waits for the fate of the one before");
        rival.client.batch_execute(end).await.unwrap();
        late.await.unwrap()
    };
    let ((), late) = tokio::join!(publishes, goes_on);
    if end == "COMMIT" {
        refused(late);
    } else {
        late.unwrap();
    }
    assert_eq!(door.fixture.count("SELECT count(*) FROM work").await, 1);
    assert_eq!(
        door.fixture
            .count("SELECT count(*) FROM definition WHERE seeding > 0")
            .await,
        0
    );
    door.fixture.is_sound().await;
}

#[tokio::test]
async fn a_start_that_has_written_before_the_publish_counts() {
    under_way("Singleton", None, false, "COMMIT").await;
}

#[tokio::test]
async fn a_start_whose_snapshot_is_older_than_the_publish_and_that_writes_after_it_counts() {
    under_way("Singleton", None, true, "COMMIT").await;
}

#[tokio::test]
async fn a_start_in_flight_that_is_rolled_back_does_not_count() {
    under_way("Singleton", None, true, "ROLLBACK").await;
}

#[tokio::test]
async fn a_correlated_start_in_flight_counts() {
    under_way("CorrelatedSingleton", Some("c"), true, "COMMIT").await;
}

#[tokio::test]
async fn an_uncorrelated_start_in_flight_counts_for_a_correlated_singleton() {
    under_way("CorrelatedSingleton", None, true, "COMMIT").await;
}

#[tokio::test]
async fn a_start_in_flight_counts_for_a_correlation() {
    under_way("Correlation", Some("c"), true, "COMMIT").await;
}

#[tokio::test]
async fn pending_and_running_instances_count_under_the_next_strategy() {
    for strategy in ["CorrelatedSingleton", "Correlation"] {
        let door = Door::new("AllowAlways").await;
        door.start("pending", Some("p")).await.unwrap();
        let running = door.start("running", None).await.unwrap();
        door.runs("running", running, correlating("r")).await;
        publish(&door.fixture, &door.writer, strategy, &[]).await;
        for correlation in ["p", "r"] {
            refused(door.start("late", Some(correlation)).await);
        }
        // One that goes over to another correlation takes its note along.
        let mut over = correlating("s")(burst("running", Some(1)));
        over.effects.bookmarks_made.clear();
        assert_outcome!(door.writer.write(over).await, CommitOutcome::Committed(_));
        refused(door.start("late", Some("s")).await);
        door.start("free", Some("r")).await.unwrap();
        door.fixture.is_sound().await;
        publish(&door.fixture, &door.writer, "Singleton", &[]).await;
        refused(door.start("late", None).await);
        door.fixture.is_sound().await;
    }
}

/// Publishes, and leaves what is to be done after it.
async fn publisher_dies(door: &Door, triggers: &[TriggerRow]) {
    let session = door.fixture.session().await;
    session
        .client
        .batch_execute("BEGIN; LOCK TABLE activation IN EXCLUSIVE MODE")
        .await
        .unwrap();
    let dies = publish(&door.fixture, &door.writer, "Singleton", triggers);
    tokio::select! {
        () = dies => panic!("it cannot note what counts"),
        () = async {
            door.fixture.until(1, SEEDING).await;
            door.fixture.somebody_waits().await;
        } => {}
    }
    session.client.batch_execute("ROLLBACK").await.unwrap();
    let gone = "SELECT count(*) FROM pg_locks WHERE relation = 'activation'::regclass AND mode = 'RowExclusiveLock'";
    door.fixture.until(0, gone).await;
}

#[tokio::test]
async fn the_cluster_finishes_the_publish_of_a_dead_node() {
    let door = Door::new("AllowAlways").await;
    door.start("pending", None).await.unwrap();
    publisher_dies(&door, &[]).await;
    // Whether or not the dead publisher had counted it: no start is accepted beside the existing instance.
    let before = door.start("late", None).await.unwrap_err();
    assert!(["cannot-start", "database-busy"].contains(&before.code()), "{before}");
    let class = door.fixture.base.schema().lock_class();
    activation::finish_all_publishes(&door.writer.pool, class)
        .await
        .unwrap();
    refused(door.start("late", None).await);
    let left = "SELECT count(*) FROM definition WHERE seeding > 0";
    assert_eq!(door.fixture.count(left).await, 0);
    door.fixture.is_sound().await;
}

#[tokio::test]
async fn while_what_counts_is_unknown_starts_and_events_are_busy_and_write_nothing() {
    let door = Door::new("AllowAlways").await;
    let trigger = TriggerRow {
        activity_id: "a".to_owned(),
        hash: StimulusHash([9; 32]),
        name: "Elsa.Event".to_owned(),
        payload: json!({}),
    };
    publish(&door.fixture, &door.writer, "Singleton", &[trigger]).await;
    let client = &door.fixture.admin.client;
    client
        .batch_execute("UPDATE definition SET seeding = 2 WHERE is_published")
        .await
        .unwrap();
    let (pool, class) = (door.writer.pool.clone(), door.fixture.base.schema().lock_class());
    assert_eq!(door.start("late", None).await.unwrap_err().code(), "database-busy");
    let event = super::activation::event("k");
    let error = crate::store::event::publish(&pool, class, &event).await.unwrap_err();
    assert_eq!(error.code(), "database-busy");
    for table in ["work", "idempotency_key", "inbox", "activation"] {
        assert_eq!(
            door.fixture.count(&format!("SELECT count(*) FROM {table}")).await,
            0,
            "{table}"
        );
    }
    // An event that was kept since a time before the trigger is met when what counts is known.
    client
        .batch_execute(
            "INSERT INTO inbox (tenant_id, hash, name, payload, expires_at)
             VALUES ('', decode(repeat('09', 32), 'hex'), 'Elsa.Event', 'null', now() + interval '1 minute')",
        )
        .await
        .unwrap();
    activation::finish_all_publishes(&pool, class).await.unwrap();
    assert_eq!(door.fixture.count("SELECT count(*) FROM work").await, 1);
    refused(door.start("late", None).await);
    door.fixture.is_sound().await;
}

#[tokio::test]
async fn notes_of_what_ended_meanwhile_are_swept_and_count_for_nothing() {
    let door = Door::new("AllowAlways").await;
    let running = door.start("running", None).await.unwrap();
    door.runs("running", running, suspended).await;
    publish(&door.fixture, &door.writer, "Singleton", &[]).await;
    // As if the instance had ended between the look at it and the commit of the note.
    let client = &door.fixture.admin.client;
    client
        .batch_execute(
            "INSERT INTO activation SELECT '', activation_key(1::smallint, 'd', NULL), 'gone', false, 1, 'd', NULL;
             UPDATE definition SET seeding = 1 WHERE is_published",
        )
        .await
        .unwrap();
    assert_eq!(door.held().await, 2);
    refused(door.start("late", None).await);
    let class = door.fixture.base.schema().lock_class();
    let (tenant, id) = (TenantId::default(), DefinitionId::new("d"));
    activation::finish_publish(&door.writer.pool, class, &tenant, &id)
        .await
        .unwrap();
    assert_eq!(door.held().await, 1);
    refused(door.start("late", None).await);
    door.fixture.is_sound().await;
}

#[tokio::test]
async fn the_same_strategy_published_again_delays_no_start() {
    let door = Door::new("Singleton").await;
    let session = door.fixture.session().await;
    session
        .client
        .batch_execute("BEGIN; LOCK TABLE work IN ROW EXCLUSIVE MODE")
        .await
        .unwrap();
    let again = publish(&door.fixture, &door.writer, "Singleton", &[]);
    tokio::time::timeout(std::time::Duration::from_secs(60), again)
        .await
        .unwrap();
    let one = door.start("one", None).await.unwrap();
    refused(door.start("two", None).await);
    door.runs("one", one, |request| request).await;
    door.fixture.is_sound().await;
}

#[tokio::test]
async fn a_start_that_is_replayed_asks_the_strategy_that_is_published_now() {
    let door = Door::new("AllowAlways").await;
    door.start("old", None).await.unwrap();
    let letter = "WITH gone AS (DELETE FROM work RETURNING *)
                  INSERT INTO dead_letter (tenant_id, instance_id, kind, reason, work_id, definition_id, version_id,
                                           definition_version, body, failures, crashes)
                  SELECT tenant_id, instance_id, kind, 'crashed', id, definition_id, version_id, definition_version,
                         body, 0, 3 FROM gone RETURNING id";
    let letter: i64 = door.fixture.admin.client.query_one(letter, &[]).await.unwrap().get(0);
    publish(&door.fixture, &door.writer, "Singleton", &[]).await;
    let one = door.start("one", None).await.unwrap();
    let tenant = TenantId::default();
    let error = dead_letter::replay(&door.writer.pool, &tenant, letter)
        .await
        .unwrap_err();
    assert_eq!(error.code(), "cannot-start");
    door.runs("one", one, |request| request).await;
    dead_letter::replay(&door.writer.pool, &tenant, letter).await.unwrap();
    refused(door.start("two", None).await);
    door.fixture.is_sound().await;
}

/// The other rows' own door, so that two nodes are there.
#[tokio::test]
async fn starts_on_two_nodes_over_a_change_of_strategy_come_to_one() {
    let door = Door::new("AllowAlways").await;
    let other = door.fixture.writer().await;
    let (acceptor, _task) = Acceptor::start(&other.connector, &other.pool, other.incarnation, false);
    let acceptors = [door.acceptor.clone(), acceptor];
    let starts = async |from: usize| {
        let all = (from..from + 40).map(|n| {
            let acceptor = acceptors[n % 2].clone();
            async move { accept(&acceptor, start(&format!("i{n}"), None)).await.is_ok() }
        });
        futures_util::future::join_all(all).await
    };
    let (_, ()) = tokio::join!(starts(0), publish(&door.fixture, &door.writer, "Singleton", &[]));
    let after = starts(100).await;
    assert!(after.into_iter().all(|accepted| !accepted), "others run");
    let new =
        "SELECT count(*) FROM work w JOIN definition d USING (tenant_id, version_id) WHERE d.activation_strategy = 1";
    let old =
        "SELECT count(*) FROM work w JOIN definition d USING (tenant_id, version_id) WHERE d.activation_strategy = 0";
    let (new, old) = (door.fixture.count(new).await, door.fixture.count(old).await);
    assert!(new == 0 || (new == 1 && old == 0), "{new} beside {old}");
    door.fixture.is_sound().await;
}
