//! A publish that changes the strategy of a workflow: no start is accepted against both the old and the new one.

use std::time::Duration;

use serde_json::json;
use tokio::sync::mpsc;

use super::activation::{Environment, accept, correlated, correlating, publish, refused, stays, suspended};
use super::definitions::start;
use crate::failpoint;
use crate::id::{DefinitionId, StimulusHash, TenantId};
use crate::store::definition::TriggerRow;
use crate::store::start::{Acceptor, StartForm};
use crate::store::{activation, dead_letter};
use crate::testing::store::{burst, execute};

/// The statement that accepts a start. With `held`, it waits after it took its snapshot, before it writes.
fn by_hand(accept: &str, body: &str, held: bool) -> String {
    let lock = if held {
        ", LATERAL pg_advisory_xact_lock_shared(4711) l"
    } else {
        ""
    };
    let row = format!(
        "(row(0, '', 'competitor', 'd', '{body}', NULL, NULL, NULL, false, NULL, NULL, NULL, NULL, NULL, NULL)::start_request)"
    );
    accept
        .replace(
            "unnest($2::start_request[])",
            &format!("(SELECT (u.r).* FROM (SELECT {row} AS r OFFSET 0) u{lock})"),
        )
        .replace("$1::bigint", "NULL::bigint")
}

const SEEDING: &str = "SELECT count(*) FROM definition WHERE is_published AND seeding = 2";

/// The publisher polls twice for open transactions of earlier starts, and does not continue.
async fn polls_again(points: &mut mpsc::UnboundedReceiver<String>) {
    let polls = async {
        let mut polls = 0;
        while polls < 2 {
            let point = points.recv().await.expect("the publish ended too early");
            assert_ne!(point, "activation.waited", "the publisher did not wait");
            polls += usize::from(point == "activation.waits");
        }
    };
    tokio::time::timeout(Duration::from_secs(60), polls)
        .await
        .expect("the publisher does not poll");
}

/// Publishes another strategy while a start under the old version is in flight. Later starts wait for its outcome, and
/// see it.
async fn under_way(strategy: &'static str, correlation: Option<&str>, held: bool, end: &str) {
    // All forms of the statement that accepts, as each finds the old version.
    let form = match strategy {
        "Singleton" => StartForm::Claimed,
        "CorrelatedSingleton" => StartForm::Unclaimed,
        _ => StartForm::Checked,
    };
    let statement = form.text(false, false);
    let env = Environment::new("AllowAlways").await;
    let (competitor, gate) = (env.fixture.session().await, env.fixture.session().await);
    let body = json!({ "correlationId": correlation }).to_string();
    execute(&gate, "BEGIN; SELECT pg_advisory_xact_lock(4711)").await;
    competitor.client.batch_execute("BEGIN").await.unwrap();
    let statement = by_hand(&statement, &body, held);
    let competitor = tokio::spawn(async move {
        competitor.client.batch_execute(&statement).await.unwrap();
        competitor
    });
    if held {
        env.fixture.a_session_waits().await;
        let xids = "SELECT count(*) FROM pg_stat_activity
                    WHERE datname = current_database() AND wait_event_type = 'Lock' AND backend_xid IS NULL";
        assert_eq!(env.fixture.count(xids).await, 1, "it has written nothing yet");
    } else {
        let written = "SELECT count(*) FROM pg_stat_activity
                       WHERE datname = current_database() AND state = 'idle in transaction' AND backend_xid IS NOT NULL";
        env.fixture.until(1, written).await;
    }
    let start = correlated(start("late", None), correlation);
    let acceptor = env.acceptor.clone();
    let (passed, mut points) = mpsc::unbounded_channel();
    let publishes = failpoint::watched(passed, publish(&env.fixture, &env.writer, strategy, &[]));
    let goes_on = async {
        polls_again(&mut points).await;
        assert_eq!(env.fixture.count(SEEDING).await, 1);
        let late = tokio::spawn(async move { accept(&acceptor, start).await });
        gate.client.batch_execute("COMMIT").await.unwrap();
        let competitor = competitor.await.unwrap();
        // It has written by now, and is still open: the publisher still polls.
        while points.try_recv().is_ok() {}
        polls_again(&mut points).await;
        assert_eq!(env.fixture.count(SEEDING).await, 1);
        assert!(!late.is_finished(), "it waits for the outcome of the earlier start");
        competitor.client.batch_execute(end).await.unwrap();
        late.await.unwrap()
    };
    let ((), late) = tokio::join!(publishes, goes_on);
    if end == "COMMIT" {
        refused(late);
    } else {
        late.unwrap();
    }
    assert_eq!(env.fixture.count("SELECT count(*) FROM work").await, 1);
    assert_eq!(
        env.fixture
            .count("SELECT count(*) FROM definition WHERE seeding > 0")
            .await,
        0
    );
    env.fixture.is_sound().await;
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
        let env = Environment::new("AllowAlways").await;
        env.start("pending", Some("p")).await.unwrap();
        let running = env.start("running", None).await.unwrap();
        env.runs("running", running, correlating("r")).await;
        publish(&env.fixture, &env.writer, strategy, &[]).await;
        for correlation in ["p", "r"] {
            refused(env.start("late", Some(correlation)).await);
        }
        // An instance that changes its correlation id moves its note to the new one.
        let mut over = correlating("s")(burst("running", Some(1)));
        over.effects.bookmarks_made.clear();
        over.effects.rematched = vec![stays()];
        env.writer.commits(over).await;
        refused(env.start("late", Some("s")).await);
        env.start("free", Some("r")).await.unwrap();
        env.fixture.is_sound().await;
        publish(&env.fixture, &env.writer, "Singleton", &[]).await;
        refused(env.start("late", None).await);
        env.fixture.is_sound().await;
    }
}

/// Ends a publisher before it has seeded the activation rows.
async fn kill_publisher(env: &Environment, triggers: &[TriggerRow]) {
    let session = env.fixture.begin("LOCK TABLE activation IN EXCLUSIVE MODE").await;
    let publishes = publish(&env.fixture, &env.writer, "Singleton", triggers);
    tokio::select! {
        () = publishes => panic!("it cannot seed the activation rows"),
        () = async {
            env.fixture.until(1, SEEDING).await;
            env.fixture.a_session_waits().await;
        } => {}
    }
    session.client.batch_execute("ROLLBACK").await.unwrap();
    let locks = "SELECT count(*) FROM pg_locks WHERE relation = 'activation'::regclass AND mode = 'RowExclusiveLock'";
    env.fixture.until(0, locks).await;
}

#[tokio::test]
async fn the_cluster_finishes_the_publish_of_a_dead_node() {
    let env = Environment::new("AllowAlways").await;
    env.start("pending", None).await.unwrap();
    kill_publisher(&env, &[]).await;
    // Whether or not the dead publisher had counted it: no start is accepted beside the existing instance.
    let before = env.start("late", None).await.unwrap_err();
    assert!(["cannot-start", "database-busy"].contains(&before.code()), "{before}");
    let class = env.fixture.base.schema().lock_class();
    activation::finish_all_publishes(&env.writer.pool, class).await.unwrap();
    refused(env.start("late", None).await);
    let left = "SELECT count(*) FROM definition WHERE seeding > 0";
    assert_eq!(env.fixture.count(left).await, 0);
    env.fixture.is_sound().await;
}

#[tokio::test]
async fn while_what_counts_is_unknown_starts_and_events_are_busy_and_write_nothing() {
    let env = Environment::new("AllowAlways").await;
    let trigger = TriggerRow {
        activity_id: "a".to_owned(),
        hash: StimulusHash([9; 32]),
        name: "Elsa.Event".to_owned(),
        payload: json!({}),
        pattern_bytes: 0,
        outline: None,
    };
    publish(&env.fixture, &env.writer, "Singleton", &[trigger]).await;
    let client = &env.fixture.admin.client;
    client
        .batch_execute("UPDATE definition SET seeding = 2 WHERE is_published")
        .await
        .unwrap();
    let (pool, class) = (env.writer.pool.clone(), env.fixture.base.schema().lock_class());
    assert_eq!(env.start("late", None).await.unwrap_err().code(), "database-busy");
    let event = super::activation::event("k");
    let error = crate::store::event::publish(&pool, class, &event).await.unwrap_err();
    assert_eq!(error.code(), "database-busy");
    for table in ["work", "idempotency_key", "inbox", "activation"] {
        assert_eq!(
            env.fixture.count(&format!("SELECT count(*) FROM {table}")).await,
            0,
            "{table}"
        );
    }
    // An event that was kept since a time before the trigger is matched once the seeding is done.
    client
        .batch_execute(
            "WITH kept AS (
                 INSERT INTO inbox (tenant_id, hash, name, payload, expires_at)
                 VALUES ('', decode(repeat('09', 32), 'hex'), 'Elsa.Event', 'null', now() + interval '1 minute')
                 RETURNING *)
             INSERT INTO inbox_match (tenant_id, definition_id, hash, cut) SELECT tenant_id, 'd', hash, id FROM kept",
        )
        .await
        .unwrap();
    assert_eq!(env.fixture.match_inbox(&pool).await, 0);
    activation::finish_all_publishes(&pool, class).await.unwrap();
    assert_eq!(env.fixture.match_inbox(&pool).await, 1);
    assert_eq!(env.fixture.count("SELECT count(*) FROM work").await, 1);
    refused(env.start("late", None).await);
    env.fixture.is_sound().await;
}

#[tokio::test]
async fn keys_of_what_ended_meanwhile_are_pruned_and_count_for_nothing() {
    let env = Environment::new("AllowAlways").await;
    let running = env.start("running", None).await.unwrap();
    env.runs("running", running, suspended).await;
    publish(&env.fixture, &env.writer, "Singleton", &[]).await;
    // As if the instance had ended between the read of it and the commit of the key.
    let client = &env.fixture.admin.client;
    client
        .batch_execute(
            "INSERT INTO activation SELECT '', activation_key(1::smallint, 'd', NULL), 'ended', false, 1, 'd', NULL;
             UPDATE definition SET seeding = 1 WHERE is_published",
        )
        .await
        .unwrap();
    assert_eq!(env.held().await, 2);
    refused(env.start("late", None).await);
    let class = env.fixture.base.schema().lock_class();
    let (tenant, id) = (TenantId::default(), DefinitionId::new("d"));
    activation::finish_publish(&env.writer.pool, class, &tenant, &id)
        .await
        .unwrap();
    assert_eq!(env.held().await, 1);
    refused(env.start("late", None).await);
    env.fixture.is_sound().await;
}

#[tokio::test]
async fn the_same_strategy_published_again_delays_no_start() {
    let env = Environment::new("Singleton").await;
    let _session = env.fixture.begin("LOCK TABLE work IN ROW EXCLUSIVE MODE").await;
    let again = publish(&env.fixture, &env.writer, "Singleton", &[]);
    tokio::time::timeout(std::time::Duration::from_secs(60), again)
        .await
        .unwrap();
    let one = env.start("one", None).await.unwrap();
    refused(env.start("two", None).await);
    env.runs("one", one, |request| request).await;
    env.fixture.is_sound().await;
}

#[tokio::test]
async fn a_start_that_is_replayed_asks_the_strategy_that_is_published_now() {
    let env = Environment::new("AllowAlways").await;
    env.start("old", None).await.unwrap();
    let dead_letter = "WITH deleted AS (DELETE FROM work RETURNING *)
                  INSERT INTO dead_letter (tenant_id, instance_id, kind, reason, work_id, definition_id, version_id,
                                           definition_version, body, failures, crashes)
                  SELECT tenant_id, instance_id, kind, 'crashed', id, definition_id, version_id, definition_version,
                         body, 0, 3 FROM deleted RETURNING id";
    let dead_letter: i64 = env
        .fixture
        .admin
        .client
        .query_one(dead_letter, &[])
        .await
        .unwrap()
        .get(0);
    publish(&env.fixture, &env.writer, "Singleton", &[]).await;
    let one = env.start("one", None).await.unwrap();
    let tenant = TenantId::default();
    let error = dead_letter::replay(&env.writer.pool, &tenant, dead_letter)
        .await
        .unwrap_err();
    assert_eq!(error.code(), "cannot-start");
    env.runs("one", one, |request| request).await;
    dead_letter::replay(&env.writer.pool, &tenant, dead_letter)
        .await
        .unwrap();
    refused(env.start("two", None).await);
    env.fixture.is_sound().await;
}

/// With a second acceptor, of another node.
#[tokio::test]
async fn starts_on_two_nodes_over_a_change_of_strategy_come_to_one() {
    let env = Environment::new("AllowAlways").await;
    let other = env.fixture.writer().await;
    let (acceptor, _task) = Acceptor::start(&other.connector, &other.pool, other.incarnation, false);
    let acceptors = [env.acceptor.clone(), acceptor];
    let starts = async |from: usize| {
        let all = (from..from + 40).map(|n| {
            let acceptor = acceptors[n % 2].clone();
            async move { accept(&acceptor, start(&format!("i{n}"), None)).await.is_ok() }
        });
        futures_util::future::join_all(all).await
    };
    let (_, ()) = tokio::join!(starts(0), publish(&env.fixture, &env.writer, "Singleton", &[]));
    let after = starts(100).await;
    assert!(after.into_iter().all(|accepted| !accepted), "others run");
    let new =
        "SELECT count(*) FROM work w JOIN definition d USING (tenant_id, version_id) WHERE d.activation_strategy = 1";
    let old =
        "SELECT count(*) FROM work w JOIN definition d USING (tenant_id, version_id) WHERE d.activation_strategy = 0";
    let (new, old) = (env.fixture.count(new).await, env.fixture.count(old).await);
    assert!(new == 0 || (new == 1 && old == 0), "{new} beside {old}");
    env.fixture.is_sound().await;
}
