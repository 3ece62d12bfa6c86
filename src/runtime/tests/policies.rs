//! What fires after a downtime, beside what runs, and under a strategy.

use serde_json::{Value, json};

use super::timers::Timers;
use crate::id::{ClaimNo, WorkId};
use crate::store::commit::Claim;
use crate::store::commit::tests::fixture::burst;

/// Made, misfired, skipped.
type Counts = (i64, i64, i64);

#[tokio::test]
async fn every_policy_makes_of_every_downtime_what_it_says() {
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
            assert_eq!(timers.look().await, (1, expected.0), "{misfire} {downtime}");
            let stands = timers.stands("a").await;
            assert_eq!(
                (stands.fired, stands.misfired, stands.skipped),
                expected,
                "{misfire} {downtime}"
            );
            assert_eq!(timers.look().await, (0, 0), "{misfire} {downtime}");
            if expected.0 == 1 {
                let told = timers.starts().await[0].1["standsFor"].clone();
                let wanted = if misfire == json!("Skip") { 0 } else { expected.2 };
                assert_eq!(told, json!(wanted), "{misfire} {downtime}");
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
        assert_eq!(timers.look().await, (1, made), "{policy}");
        let stands = timers.stands("a").await;
        assert_eq!(
            (stands.next, stands.misfired, stands.skipped),
            (None, 1, 1 - made),
            "{policy}"
        );
        assert_eq!(timers.look().await, (0, 0));
        timers.is_sound().await;
    }
    for (policy, made) in [("FireOnceNow", 1), ("FireAll:3", 3), ("FireAll:1000", 120)] {
        let timers = Timers::new().await;
        timers
            .publish(&[("a", json!({"cronExpression": "* * * * *", "misfire": policy}))])
            .await;
        timers.sleep_since(7_200.0).await;
        assert_eq!(timers.look().await, (1, made), "{policy}");
        timers.is_sound().await;
    }
    // A delay as a trigger: once, counted from the publish.
    let timers = Timers::new().await;
    timers.publish(&[("a", json!({"timeSpan": "00:00:10"}))]).await;
    assert_eq!(timers.look().await, (0, 0));
    timers.sleep_since(11.0).await;
    assert_eq!(timers.look().await, (1, 1));
    assert_eq!(timers.stands("a").await.next, None);
    timers.is_sound().await;
}

/// Ends the instance of the only start that waits, as a burst does that comes to its end.
async fn run(timers: &Timers) {
    let incarnation = timers.writer.incarnation.0;
    let sql = "UPDATE work SET claimed_by = $1, claim_no = 1 RETURNING id, instance_id";
    let row = timers
        .fixture
        .admin
        .client
        .query_one(sql, &[&incarnation])
        .await
        .unwrap();
    let mut request = burst(row.get(1), None);
    request.claims = vec![Claim::Work(WorkId(row.get(0)), ClaimNo(1))];
    let verdict = timers.writer.write(request).await;
    assert!(matches!(verdict, crate::store::commit::Verdict::Won(_)), "{verdict:?}");
}

#[tokio::test]
async fn beside_what_runs_an_occurrence_starts_is_dropped_or_waits() {
    for (overlap, made, skipped) in [("Allow", 1, 0), ("Skip", 0, 1), ("QueueOne", 0, 0)] {
        let timers = Timers::new().await;
        let inputs = json!({"interval": "01:00:00", "overlap": overlap});
        timers.publish(&[("a", inputs)]).await;
        timers.sleep_since(3_610.0).await;
        assert_eq!(timers.look().await, (1, 1));
        // Of the next ones the first may wait, and no other.
        timers.sleep_since(2.0 * 3_600.0 + 10.0).await;
        let sql = "UPDATE schedule SET last_occurrence = anchor + interval '1 hour'";
        timers.fixture.admin.client.execute(sql, &[]).await.unwrap();
        assert_eq!(timers.look().await, (1, made), "{overlap}");
        let stands = timers.stands("a").await;
        assert_eq!(
            (stands.skipped, stands.is_queued),
            (skipped, overlap == "QueueOne"),
            "{overlap}"
        );
        timers.is_sound().await;
        if overlap != "QueueOne" {
            continue;
        }
        assert_eq!(timers.look_at_queued().await, (0, 0), "it still runs");
        timers.sleep_since(3.0 * 3_600.0 + 10.0).await;
        let sql = "UPDATE schedule SET last_occurrence = anchor + interval '2 hours'";
        timers.fixture.admin.client.execute(sql, &[]).await.unwrap();
        assert_eq!(timers.look().await, (1, 0));
        assert_eq!(timers.stands("a").await.skipped, 1, "one waits, no more");
        run(&timers).await;
        assert_eq!(timers.look_at_queued().await, (1, 1));
        assert_eq!(timers.look_at_queued().await, (0, 0));
        assert!(!timers.stands("a").await.is_queued);
        assert_eq!(timers.stands("a").await.fired, 2);
        run(&timers).await;
        assert_eq!(timers.fixture.count("SELECT count(*) FROM activation").await, 0);
        timers.is_sound().await;
    }
}

#[tokio::test]
async fn the_activation_strategy_is_asked() {
    let timers = Timers::new().await;
    let body = json!({"options": {"activationStrategyType": "SingletonStrategy"}});
    let all = json!({"interval": "01:00:00", "misfire": "FireAll"});
    timers.publish_with(body, &[("a", all.clone()), ("b", all)]).await;
    timers.sleep_since(3.0 * 3_600.0 + 10.0).await;
    // Six are due, of two schedules, and one may start.
    assert_eq!(timers.look().await, (2, 1));
    let (a, b) = (timers.stands("a").await, timers.stands("b").await);
    assert_eq!((a.fired + b.fired, a.skipped + b.skipped), (1, 5));
    run(&timers).await;
    timers.sleep_since(3_610.0).await;
    assert_eq!(timers.look().await, (2, 1));
    timers.is_sound().await;
}
