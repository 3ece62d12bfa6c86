//! Which process may register under a node id, and how a registration ends.

use std::sync::Arc;
use std::time::Duration;

use super::{Membership, MembershipOptions};
use crate::db::{Pool, Session};
use crate::id::{Incarnation, NodeId};
use crate::lock::LockKey;
use crate::store::commit::{CommitWriter, WRITERS, WriterOptions};
use crate::store::maintenance::Retention;
use crate::store::{lock, node};
use crate::testing::store::{Fixture, execute};
use crate::watchdog::Watchdog;

pub(super) fn options(node: &str) -> MembershipOptions {
    MembershipOptions {
        node_id: NodeId::new(node),
        check_in: Duration::from_millis(50),
        tolerance: Duration::from_secs(2),
        retention: Retention {
            dead_letters: Duration::from_secs(3600),
            audit: Duration::from_secs(3600),
        },
        watchdog: Watchdog::default(),
    }
}

async fn join(fixture: &Fixture, node: &str) -> crate::Result<Membership> {
    Membership::join(&fixture.base, &options(node), None).await
}

async fn ended(membership: &Membership) -> &'static str {
    tokio::time::timeout(Duration::from_secs(60), membership.ended())
        .await
        .expect("the registration goes on")
}

/// The registration of a process that was killed, with a claim.
async fn killed(fixture: &Fixture, node: &str) -> Incarnation {
    let client = &fixture.admin.client;
    let incarnation = node::next_incarnation(client).await.unwrap();
    node::register(client, incarnation, &NodeId::new(node), Duration::from_secs(60))
        .await
        .unwrap();
    let claim = "INSERT INTO work (tenant_id, instance_id, kind, body, claimed_by, claim_no, has_begun)
                 VALUES ('', 'i' || $1::bigint, 0, '{}', $1, 1, true)";
    client.execute(claim, &[&incarnation.0]).await.unwrap();
    incarnation
}

/// Holds the liveness lock of an incarnation, as its process would.
async fn hold_liveness(fixture: &Fixture, incarnation: Incarnation) -> Session {
    let session = fixture.session().await;
    let key = LockKey::liveness(fixture.base.schema().as_str(), incarnation).0;
    execute(&session, &format!("SELECT pg_advisory_lock({key})")).await;
    session
}

/// The rows of work that an incarnation has claimed; of none, those that no incarnation has.
async fn claimed_by(fixture: &Fixture, incarnation: Option<Incarnation>) -> i64 {
    let count = "SELECT count(*) FROM work WHERE claimed_by IS NOT DISTINCT FROM $1";
    let claimed_by = incarnation.map(|incarnation| incarnation.0);
    let row = fixture.admin.client.query_one(count, &[&claimed_by]).await;
    row.unwrap().get(0)
}

#[tokio::test]
async fn the_liveness_lock_is_held_before_the_node_is_visible() {
    let fixture = Fixture::new().await;
    let trigger = "CREATE FUNCTION stop_here() RETURNS trigger LANGUAGE plpgsql AS
                   'BEGIN PERFORM pg_advisory_xact_lock_shared(4711); RETURN NEW; END';
                   CREATE TRIGGER stop_here BEFORE INSERT ON node FOR EACH ROW EXECUTE FUNCTION stop_here()";
    execute(&fixture.admin, trigger).await;
    let blocker = fixture.begin("SELECT pg_advisory_xact_lock(4711)").await;
    let base = fixture.base.clone();
    let joins = tokio::spawn(async move { Membership::join(&base, &options("n"), None).await });
    fixture.a_session_waits().await;
    let incarnation = Incarnation(fixture.count("SELECT last_value FROM incarnation").await);
    let key = LockKey::liveness(fixture.base.schema().as_str(), incarnation);
    assert_eq!(fixture.holders(key).await, 1, "it registers without its liveness lock");
    execute(&blocker, "ROLLBACK").await;
    let membership = joins.await.unwrap().unwrap();
    assert_eq!(membership.incarnation, incarnation);
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_process_removes_a_killed_incarnation_of_its_node_id() {
    let fixture = Fixture::new().await;
    let older = killed(&fixture, "n").await;
    let other = killed(&fixture, "m").await;
    let _alive = hold_liveness(&fixture, other).await;
    let membership = join(&fixture, "n").await.unwrap();
    assert!(membership.incarnation > older);
    assert_eq!(claimed_by(&fixture, Some(older)).await, 0);
    assert_eq!(
        claimed_by(&fixture, Some(other)).await,
        1,
        "claims of another node are not released"
    );
    assert_eq!(fixture.count("SELECT count(*) FROM node").await, 2);
    assert_eq!(fixture.count("SELECT count(*) FROM removed_node").await, 0);
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_node_id_in_use_is_refused() {
    let fixture = Fixture::new().await;
    let first = join(&fixture, "n").await.unwrap();
    let mut second = options("n");
    second.tolerance = Duration::from_millis(200);
    let refused = Membership::join(&fixture.base, &second, None).await;
    assert_eq!(refused.err().unwrap().code(), "node-id-in-use");
    assert_eq!(
        fixture.count("SELECT incarnation FROM node").await,
        first.incarnation.0,
        "the registered node is not removed"
    );
    let lanes = i64::try_from(WRITERS.len()).unwrap();
    assert_eq!(fixture.count("SELECT count(*) FROM fence").await, lanes);
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_slowly_ending_predecessor_is_waited_for() {
    let fixture = Fixture::new().await;
    let older = killed(&fixture, "n").await;
    let ending = hold_liveness(&fixture, older).await;
    let base = fixture.base.clone();
    let joins = tokio::spawn(async move {
        let mut options = options("n");
        options.tolerance = Duration::from_secs(20);
        Membership::join(&base, &options, None).await
    });
    // It has tried at least once.
    let tries = "SELECT count(*) FROM pg_stat_activity
                 WHERE datname = current_database() AND query LIKE '%SELECT k AS key, pg_try_advisory_lock(k)%'
                   AND pid <> pg_backend_pid()";
    fixture.until(1, tries).await;
    assert!(!joins.is_finished());
    assert_eq!(claimed_by(&fixture, None).await, 0);
    drop(ending);
    let membership = joins.await.unwrap().unwrap();
    assert_eq!(
        fixture.count("SELECT incarnation FROM node").await,
        membership.incarnation.0
    );
    assert_eq!(claimed_by(&fixture, None).await, 1);
    fixture.is_sound().await;
}

/// Before they can answer, no part is asked.
#[tokio::test]
async fn a_slow_registration_is_no_hang() {
    let fixture = Fixture::new().await;
    let options = options("n");
    let asks = async {
        loop {
            assert_eq!(options.watchdog.step(), None);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let blocker = fixture.begin("LOCK TABLE node").await;
    let goes_on = async {
        fixture.a_session_waits().await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        execute(&blocker, "ROLLBACK").await;
    };
    let registers = async {
        let join = Membership::join(&fixture.base, &options, None);
        let (membership, ()) = tokio::join!(join, goes_on);
        let membership = membership.unwrap();
        let writing = WriterOptions::default();
        let started = CommitWriter::<Arc<()>>::start(
            &membership.connector,
            membership.incarnation,
            writing,
            &options.watchdog,
        );
        let (_writer, _tasks) = started.await.unwrap();
    };
    tokio::select! {
        () = registers => {}
        () = asks => {}
    }
}

#[tokio::test]
async fn a_node_that_was_removed_learns_it() {
    let fixture = Fixture::new().await;
    for taken in ["DELETE FROM node", "DELETE FROM fence"] {
        let membership = join(&fixture, "n").await.unwrap();
        let mut reports = membership.reports();
        reports.wait_for(|report| report.is_fresh()).await.unwrap();
        fixture.admin.client.batch_execute(taken).await.unwrap();
        assert_eq!(ended(&membership).await, "it was removed", "{taken}");
        assert!(!membership.reports().borrow().is_fresh());
        // The same process registers again.
        let previous = membership.incarnation;
        drop(membership);
        let again = Membership::join(&fixture.base, &options("n"), Some(previous))
            .await
            .unwrap();
        assert!(again.incarnation > previous);
        let pool = Pool::new(&again.connector, 1).unwrap();
        again.leave(&pool).await.unwrap();
        fixture.until(0, "SELECT count(*) FROM node").await;
    }
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_lost_lock_session_ends_the_registration() {
    let fixture = Fixture::new().await;
    let membership = join(&fixture, "n").await.unwrap();
    let liveness = LockKey::liveness(fixture.base.schema().as_str(), membership.incarnation);
    fixture.terminate_holder(liveness).await;
    assert_eq!(ended(&membership).await, "its lock session was lost");
}

#[tokio::test]
async fn a_check_in_shows_expired_nodes() {
    let fixture = Fixture::new().await;
    let late = killed(&fixture, "late").await;
    let fresh = killed(&fixture, "fresh").await;
    let _alive = (
        hold_liveness(&fixture, late).await,
        hold_liveness(&fixture, fresh).await,
    );
    let is_late = "UPDATE node SET last_seen = clock_timestamp() - interval '2 minutes' WHERE node_id = 'late'";
    execute(&fixture.admin, is_late).await;
    let membership = join(&fixture, "n").await.unwrap();
    let mut reports = membership.reports();
    let shows = reports.wait_for(|report| !report.check_in.expired.is_empty());
    let report = tokio::time::timeout(Duration::from_secs(60), shows)
        .await
        .unwrap()
        .unwrap();
    let expired: Vec<_> = report
        .check_in
        .expired
        .iter()
        .map(|expired| expired.incarnation)
        .collect();
    assert_eq!(expired, [late]);
    assert!(report.check_in.registered);
}

/// DROP DATABASE of any database waits until every session of the server has answered it, and the timeout of a wait comes first.
#[tokio::test]
async fn a_session_that_waits_again_and_again_lets_a_database_be_dropped() {
    let fixture = Fixture::new().await;
    let key = LockKey::liveness(fixture.base.schema().as_str(), Incarnation(1)).0;
    let _held = hold_liveness(&fixture, Incarnation(1)).await;
    let waits = fixture.session().await;
    lock::prepare_waits(&waits.client).await.unwrap();
    let dropped = async {
        let session = fixture.session().await;
        let name = format!("mainspring_dropped_{}", uuid::Uuid::new_v4().simple());
        // Without the wait's timeout this takes forever; a checkpoint on a busy disk takes up to a minute.
        execute(&session, "SET statement_timeout = '5min'").await;
        for _ in 0..10 {
            execute(&session, &format!("CREATE DATABASE {name}")).await;
            execute(&session, &format!("DROP DATABASE {name}")).await;
        }
    };
    let waiting = async {
        loop {
            assert!(
                !lock::wait_until_free(&waits.client, key, Duration::from_millis(1))
                    .await
                    .unwrap()
            );
        }
    };
    tokio::select! {
        () = dropped => {}
        () = waiting => {}
    }
}
