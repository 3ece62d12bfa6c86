//! What fires after a downtime, during a running instance, and under an activation strategy.

use postgres_types::ToSql;
use serde_json::{Value, json};

use super::timers::{Timers, parts};
use crate::assert_outcome;
use crate::id::{ClaimNo, TenantId, WorkId};
use crate::store::commit::{Claim, CommitOutcome};
use crate::store::{activation, dead_letter};
use crate::testing::store::{burst, execute};

/// Made, misfired, skipped.
type Counts = (i64, i64, i64);

#[tokio::test]
async fn each_misfire_policy_handles_each_downtime_as_documented() {
    // 90 intervals of a minute were due, and the last of them 30 s ago; then one of them.
    let policies: [(Value, Counts, Counts); 7] = [
        (json!("FireOnceNow"), (1, 89, 89), (1, 0, 0)),
        (json!("Skip"), (1, 89, 89), (1, 0, 0)),
        (json!("FireAll"), (90, 89, 0), (1, 0, 0)),
        (json!("FireAll:20"), (20, 89, 70), (1, 0, 0)),
        (json!("OnlyIfLateBy:00:00:10"), (0, 90, 90), (0, 1, 1)),
        (json!("OnlyIfLateBy:00:10:00"), (1, 89, 89), (1, 0, 0)),
        (
            json!({"policy": "FireOnceNow", "lateFrom": "00:00:20"}),
            (1, 90, 89),
            (1, 1, 0),
        ),
    ];
    for (misfire, long, short) in policies {
        for (downtime, expected) in [(5_430.0, long), (90.0, short)] {
            let timers = Timers::new().await;
            timers
                .publish(&[("a", json!({"interval": "00:01:00", "misfire": misfire}))])
                .await;
            timers.sleep_since(downtime).await;
            // What the metrics count, once this node has fired it.
            let tally = timers.decisions().await[0].tally;
            let counted = (expected.0 + expected.2, expected.0, expected.1, expected.2);
            let counted: [u64; 4] = <[i64; 4]>::from(counted).map(|count| u64::try_from(count).unwrap());
            assert_eq!(
                [tally.due, tally.late, tally.misfired, tally.skipped],
                counted,
                "{misfire} {downtime}"
            );
            assert_eq!(timers.fire_due().await, (1, expected.0), "{misfire} {downtime}");
            let schedule = timers.schedule("a").await;
            assert_eq!(
                (schedule.fired, schedule.misfired, schedule.skipped),
                expected,
                "{misfire} {downtime}"
            );
            assert_eq!(timers.fire_due().await, (0, 0), "{misfire} {downtime}");
            if expected.0 == 1 {
                let stands_for = timers.starts().await[0].1["standsFor"].clone();
                let wanted = if misfire == json!("Skip") { 0 } else { expected.2 };
                assert_eq!(stands_for, json!(wanted), "{misfire} {downtime}");
            }
            timers.is_sound().await;
        }
    }
}

#[tokio::test]
async fn points_in_time_and_expressions_are_decided_as_intervals_are() {
    for (policy, made) in [
        ("FireOnceNow", 1),
        ("Skip", 0),
        ("FireAll", 1),
        ("OnlyIfLateBy:00:10:00", 0),
    ] {
        let timers = Timers::new().await;
        let once = json!({"dateTime": "2020-01-01T00:00:00Z", "misfire": policy});
        timers.publish(&[("a", once)]).await;
        assert_eq!(timers.fire_due().await, (1, made), "{policy}");
        let schedule = timers.schedule("a").await;
        assert_eq!(
            (schedule.next, schedule.misfired, schedule.skipped),
            (None, 1, 1 - made),
            "{policy}"
        );
        assert_eq!(timers.fire_due().await, (0, 0));
        timers.is_sound().await;
    }
    for (policy, made) in [("FireOnceNow", 1), ("FireAll:3", 3), ("FireAll:1000", 120)] {
        let timers = Timers::new().await;
        timers
            .publish(&[("a", json!({"cronExpression": "* * * * *", "misfire": policy}))])
            .await;
        timers.sleep_since(7_200.0).await;
        assert_eq!(timers.fire_due().await, (1, made), "{policy}");
        timers.is_sound().await;
    }
}

/// Makes dead letters of all work, as crashes do.
const GIVE_UP: &str = "WITH gone AS (DELETE FROM work RETURNING *), freed AS (DELETE FROM activation)
         INSERT INTO dead_letter (tenant_id, instance_id, kind, reason, work_id, definition_id, version_id,
                                  definition_version, body, failures, crashes)
         SELECT tenant_id, instance_id, kind, 'crashed', id, definition_id, version_id, definition_version, body, 0, 3
         FROM gone";

/// Ends the instance of the only start that waits, as a burst does that comes to its end.
async fn run(timers: &Timers) {
    let incarnation = timers.writer.incarnation.0;
    let sql = "UPDATE work SET claimed_by = $1, claim_no = 1 RETURNING id, instance_id";
    let row = timers.fixture.admin.client.query_one(sql, &[&incarnation]).await;
    let row = row.unwrap();
    let mut request = burst(row.get(1), None);
    request.claims = vec![Claim::Work(WorkId(row.get(0)), ClaimNo(1))];
    assert_outcome!(timers.writer.write(request).await, CommitOutcome::Committed(_));
}

#[tokio::test]
async fn during_a_running_instance_an_occurrence_starts_is_dropped_or_queued() {
    for (overlap, made, skipped) in [("Allow", 1, 0), ("Skip", 0, 1), ("QueueOne", 0, 0)] {
        let timers = Timers::new().await;
        let inputs = json!({"interval": "01:00:00", "overlap": overlap});
        timers.publish(&[("a", inputs)]).await;
        timers.sleep_since(3_610.0).await;
        assert_eq!(timers.fire_due().await, (1, 1));
        // Of the next occurrences only the first may be queued.
        timers.sleep_since(2.0 * 3_600.0 + 10.0).await;
        let sql = "UPDATE schedule SET last_occurrence = anchor + interval '1 hour'";
        timers.execute(sql).await;
        assert_eq!(timers.fire_due().await, (1, made), "{overlap}");
        let schedule = timers.schedule("a").await;
        assert_eq!(
            (schedule.skipped, schedule.is_queued),
            (skipped, overlap == "QueueOne"),
            "{overlap}"
        );
        timers.is_sound().await;
        if overlap != "QueueOne" {
            continue;
        }
        assert_eq!(timers.poll_queued().await, (0, 0), "it still runs");
        timers.sleep_since(3.0 * 3_600.0 + 10.0).await;
        let sql = "UPDATE schedule SET last_occurrence = anchor + interval '2 hours'";
        timers.execute(sql).await;
        assert_eq!(timers.fire_due().await, (1, 0));
        assert_eq!(timers.schedule("a").await.skipped, 1, "one waits, no more");
        run(&timers).await;
        assert_eq!(timers.poll_queued().await, (1, 1));
        assert_eq!(timers.poll_queued().await, (0, 0));
        assert!(!timers.schedule("a").await.is_queued);
        assert_eq!(timers.schedule("a").await.fired, 2);
        run(&timers).await;
        assert_eq!(timers.fixture.count("SELECT count(*) FROM activation").await, 0);
        timers.is_sound().await;
    }
}

#[tokio::test]
async fn a_dead_lettered_start_is_replayed_only_without_a_running_instance_of_its_schedule() {
    let timers = Timers::new().await;
    let hourly = |overlap: &str| [("a", json!({"interval": "01:00:00", "overlap": overlap}))];
    timers.publish(&hourly("Skip")).await;
    timers.sleep_since(3_610.0).await;
    assert_eq!(timers.fire_due().await, (1, 1));
    timers.execute(GIVE_UP).await;
    let dead_letter_id = timers.fixture.count("SELECT id FROM dead_letter").await;
    let replay = async || dead_letter::replay(&timers.writer.pool, &TenantId::default(), dead_letter_id).await;
    // The next occurrence may run, and meanwhile the dead dead_letter_id is not replayed.
    timers.sleep_since(3_610.0).await;
    timers
        .execute("UPDATE schedule SET anchor = anchor + interval '1 second'")
        .await;
    let stale = timers.decisions().await;
    assert_eq!(timers.fire_due().await, (1, 1));
    let refused = replay().await.unwrap_err();
    assert_eq!((refused.code(), refused.is_conflict()), ("schedule-running", true));
    run(&timers).await;
    // Once replayed it is running: earlier decisions start nothing, and due occurrences are dropped.
    timers.sleep_since(3_610.0).await;
    timers
        .execute("UPDATE schedule SET anchor = anchor + interval '2 seconds'")
        .await;
    let decided = timers.decisions().await;
    assert!(replay().await.unwrap().work.is_some());
    assert_eq!(
        (timers.fire(&stale).await, timers.fire(&decided).await),
        (vec![], vec![])
    );
    assert_eq!(timers.fire_due().await, (1, 0));
    assert_eq!(timers.schedule("a").await.skipped, 1);
    timers.is_sound().await;
    run(&timers).await;
    assert_eq!(timers.fixture.count("SELECT count(*) FROM activation").await, 0);
    // A schedule that allows overlap checks nothing.
    timers.publish(&hourly("Allow")).await;
    timers.sleep_since(3_610.0).await;
    assert_eq!(timers.fire_due().await, (1, 1));
    timers.execute(GIVE_UP).await;
    timers.sleep_since(3_610.0).await;
    timers
        .execute("UPDATE schedule SET anchor = anchor + interval '3 seconds'")
        .await;
    assert_eq!(timers.fire_due().await, (1, 1));
    let dead_letter_id = timers.fixture.count("SELECT id FROM dead_letter").await;
    let replayed = dead_letter::replay(&timers.writer.pool, &TenantId::default(), dead_letter_id).await;
    assert!(replayed.unwrap().work.is_some());
    assert_eq!(timers.starts().await.len(), 2);
    timers.is_sound().await;
}

#[tokio::test]
async fn a_replay_and_an_occurrence_of_the_same_moment_do_not_overlap() {
    let timers = Timers::new().await;
    timers
        .publish(&[("a", json!({"interval": "01:00:00", "overlap": "Skip"}))])
        .await;
    timers.sleep_since(3_610.0).await;
    assert_eq!(timers.fire_due().await, (1, 1));
    timers.execute(GIVE_UP).await;
    let dead_letter_id = timers.fixture.count("SELECT id FROM dead_letter").await;
    timers.sleep_since(3_610.0).await;
    let later = "UPDATE schedule SET anchor = anchor + interval '1 second'";
    timers.execute(later).await;
    let (rows, starts) = parts(&timers.decisions().await);
    let firing = timers.fixture.session().await;
    execute(&firing, "BEGIN").await;
    let params: [&(dyn ToSql + Sync); 4] = [&rows, &starts, &false, &"other"];
    let fire = include_str!("../../../../sql/queries/schedule/fire.sql");
    assert_eq!(firing.client.execute(fire, &params).await.unwrap(), 1);
    let tenant = TenantId::default();
    let replay = dead_letter::replay(&timers.writer.pool, &tenant, dead_letter_id);
    let (replayed, ()) = tokio::join!(replay, async {
        timers.fixture.a_session_waits().await;
        execute(&firing, "COMMIT").await;
    });
    // Its snapshot is older than the row: nothing was written, and the next attempt sees the row.
    assert_eq!(replayed.unwrap_err().code(), "database-busy");
    let again = dead_letter::replay(&timers.writer.pool, &tenant, dead_letter_id).await;
    assert_eq!(again.unwrap_err().code(), "schedule-running");
    assert_eq!(timers.starts().await.len(), 1);
    timers.is_sound().await;
}

#[tokio::test]
async fn nothing_fires_while_the_activations_of_a_new_strategy_are_unknown() {
    let timers = Timers::new().await;
    let all = [("a", json!({"interval": "01:00:00", "misfire": "FireAll"}))];
    timers.publish(&all).await;
    timers.sleep_since(3_610.0).await;
    assert_eq!(timers.fire_due().await, (1, 1));
    let singleton = json!({"options": {"activationStrategyType": "SingletonStrategy"}});
    timers.publish_with(singleton, &all).await;
    timers.sleep_since(3_620.0).await;
    // The state after a publisher crashed between its publish and the record of earlier activations.
    let unknown = "UPDATE definition SET seeding = 2 WHERE is_published; DELETE FROM activation";
    timers.execute(unknown).await;
    let before = timers.schedule("a").await;
    assert_eq!(timers.fire_due().await, (0, 0));
    let after = timers.schedule("a").await;
    assert_eq!(
        (after.version, after.last, after.skipped),
        (before.version, before.last, 0)
    );
    let class = timers.fixture.base.schema().lock_class();
    activation::finish_all_publishes(&timers.writer.pool, class)
        .await
        .unwrap();
    // The due occurrences are still due, and are refused by the earlier activation.
    assert_eq!(timers.fire_due().await, (1, 0));
    assert_eq!(timers.schedule("a").await.skipped, 1);
    run(&timers).await;
    timers.sleep_since(3_630.0).await;
    assert_eq!(timers.fire_due().await, (1, 1));
    timers.is_sound().await;
}

#[tokio::test]
async fn the_activation_strategy_applies_to_occurrences() {
    let timers = Timers::new().await;
    let body = json!({"options": {"activationStrategyType": "SingletonStrategy"}});
    let all = json!({"interval": "01:00:00", "misfire": "FireAll"});
    timers.publish_with(body, &[("a", all.clone()), ("b", all)]).await;
    timers.sleep_since(3.0 * 3_600.0 + 10.0).await;
    // Six are due, of two schedules, and one may start.
    assert_eq!(timers.fire_due().await, (2, 1));
    let (a, b) = (timers.schedule("a").await, timers.schedule("b").await);
    assert_eq!((a.fired + b.fired, a.skipped + b.skipped), (1, 5));
    run(&timers).await;
    timers.sleep_since(3_610.0).await;
    assert_eq!(timers.fire_due().await, (2, 1));
    timers.is_sound().await;
}
