//! An occurrence fires once, on one node, even during a publish.

use chrono::TimeDelta;
use postgres_types::ToSql;
use serde_json::json;
use tokio_postgres::Client;

use super::timers::{Timers, parts};
use crate::runtime::scheduler::decide::ScheduleFiring;
use crate::testing::store::execute;

const FIRE: &str = include_str!("../../../../sql/queries/schedule/fire.sql");

/// Fires in another session.
async fn fire_in(client: &Client, sql: &str, decisions: &[ScheduleFiring]) -> u64 {
    let (rows, starts) = parts(decisions);
    let params: [&(dyn ToSql + Sync); 4] = [&rows, &starts, &false, &"other"];
    client.execute(sql, &params).await.unwrap()
}

#[tokio::test]
async fn an_occurrence_fires_once_with_its_time() {
    let timers = Timers::new().await;
    timers.publish(&[("a", json!({"interval": "01:00:00"}))]).await;
    assert_eq!(timers.fire_due().await, (0, 0));
    timers.sleep_since(3_610.0).await;
    let before = timers.schedule("a").await;
    let decisions = timers.decisions().await;
    assert_eq!(decisions.len(), 1);
    assert_eq!(timers.fire(&decisions).await[0].accepted, 1);
    // Decisions on an older version change nothing.
    assert_eq!(timers.fire(&decisions).await, []);
    assert_eq!(timers.fire_due().await, (0, 0));
    let after = timers.schedule("a").await;
    let occurrence = before.anchor + TimeDelta::hours(1);
    assert_eq!(after.last, Some(occurrence));
    assert_eq!(after.next, Some(occurrence + TimeDelta::hours(1)));
    assert_eq!((after.fired, after.misfired, after.skipped), (1, 0, 0));
    let starts = timers.starts().await;
    assert_eq!(starts.len(), 1);
    assert_eq!(starts[0].1["scheduleId"], json!(after.id));
    let fired_for: chrono::DateTime<chrono::Utc> = starts[0].1["occurrence"].as_str().unwrap().parse().unwrap();
    assert_eq!(fired_for, occurrence);
    timers.is_sound().await;
}

#[tokio::test]
async fn of_two_nodes_that_fire_at_the_same_moment_one_wins() {
    for (commits, sql) in [
        (true, FIRE.to_owned()),
        (false, FIRE.to_owned()),
        // The comparison of versions alone decides as well, with a snapshot older than the row.
        (true, FIRE.replace(" SKIP LOCKED", "")),
    ] {
        let waits = !sql.contains("SKIP LOCKED");
        let timers = Timers::hourly().await;
        let decisions = timers.decisions().await;
        let (one, two) = (timers.fixture.session().await, timers.fixture.session().await);
        execute(&one, "BEGIN").await;
        execute(&two, "BEGIN").await;
        assert_eq!(fire_in(&one.client, &sql, &decisions).await, 1);
        let second = fire_in(&two.client, &sql, &decisions);
        let end = if commits { "COMMIT" } else { "ROLLBACK" };
        if waits {
            let (second, ()) = tokio::join!(second, async {
                timers.fixture.a_session_waits().await;
                execute(&one, end).await;
            });
            assert_eq!(second, 0);
        } else {
            assert_eq!(second.await, 0);
            execute(&one, end).await;
        }
        execute(&two, "COMMIT").await;
        let made = if commits { (0, 0) } else { (1, 1) };
        assert_eq!(timers.fire_due().await, made);
        assert_eq!(timers.starts().await.len(), 1);
        timers.is_sound().await;
    }
}

#[tokio::test]
async fn an_occurrence_starts_one_instance_even_if_its_schedule_is_replaced() {
    let timers = Timers::new().await;
    let once = json!({"dateTime": "2020-01-01T00:00:00Z"});
    timers.publish(&[("a", once.clone())]).await;
    assert_eq!(timers.fire_due().await, (1, 1));
    // Removed and published again: its row no longer shows that it has fired.
    timers.publish(&[]).await;
    timers.publish(&[("a", once)]).await;
    assert_eq!(timers.schedule("a").await.last, None);
    assert_eq!(timers.fire_due().await, (1, 0));
    assert_eq!(timers.starts().await.len(), 1);
    assert_eq!(timers.schedule("a").await.skipped, 1);
    timers.is_sound().await;
}

#[tokio::test]
async fn a_publish_keeps_unchanged_schedules_and_never_repeats_occurrences() {
    let timers = Timers::new().await;
    let hourly = json!({"interval": "01:00:00"});
    timers.publish(&[("a", hourly.clone()), ("b", hourly.clone())]).await;
    timers.sleep_since(3_610.0).await;
    let stale = timers.decisions().await;
    let before = timers.schedule("a").await;
    // Unchanged: decisions from before the publish are still valid.
    timers.publish(&[("a", hourly.clone()), ("c", hourly)]).await;
    assert_eq!(timers.schedule("a").await.version, before.version);
    assert_eq!(timers.fixture.count("SELECT count(*) FROM schedule").await, 2);
    assert_eq!(timers.fire(&stale).await.len(), 1, "b was removed");
    let fired = timers.schedule("a").await;
    let stale = {
        timers.sleep_since(7_210.0).await;
        timers.decisions().await
    };
    // Changed: it takes effect at once, and decisions on the old one are invalid.
    timers.publish(&[("a", json!({"cronExpression": "* * * * *"}))]).await;
    assert_eq!(timers.fire(&stale).await, []);
    let changed = timers.schedule("a").await;
    assert!(changed.next.unwrap() - changed.anchor <= TimeDelta::minutes(1));
    assert_eq!(changed.fired, fired.fired);
    // A clock that was ahead has fired a future occurrence: it does not fire again.
    let sql =
        "UPDATE schedule SET version = version + 1, last_occurrence = date_trunc('minute', now()) + interval '1 hour'";
    timers.execute(sql).await;
    timers.publish(&[("a", json!({"cronExpression": "*/1 * * * *"}))]).await;
    let ahead = timers.schedule("a").await;
    assert_eq!(ahead.next.unwrap() - ahead.last.unwrap(), TimeDelta::minutes(1));
    timers.is_sound().await;
}

#[tokio::test]
async fn a_settled_occurrence_is_never_decided_again() {
    let timers = Timers::hourly().await;
    let decisions = timers.decisions().await;
    // Changed by an operator, or by a faulty program: the version does not show it.
    let ahead = "UPDATE schedule SET last_occurrence = now(), next_occurrence = now() + interval '1 hour'";
    timers.execute(ahead).await;
    assert_eq!(timers.fire(&decisions).await, []);
    assert_eq!(timers.starts().await.len(), 0);
    timers.is_sound().await;
}

#[tokio::test]
async fn a_paused_schedule_is_neither_due_nor_fired() {
    let timers = Timers::hourly().await;
    let decisions = timers.decisions().await;
    let pause = "UPDATE schedule SET paused = true";
    timers.execute(pause).await;
    assert!(timers.decisions().await.is_empty());
    assert_eq!(timers.fire(&decisions).await, []);
    assert_eq!(timers.starts().await.len(), 0);
    timers.is_sound().await;
}

#[tokio::test]
async fn a_publish_waits_for_a_fire_and_a_fire_for_no_publish() {
    let timers = Timers::hourly().await;
    let decisions = timers.decisions().await;
    let firing = timers.fixture.session().await;
    execute(&firing, "BEGIN").await;
    assert_eq!(fire_in(&firing.client, FIRE, &decisions).await, 1);
    let half_hourly = [("a", json!({"interval": "00:30:00"}))];
    let publishing = timers.publish(&half_hourly);
    tokio::join!(publishing, async {
        timers.fixture.a_session_waits().await;
        execute(&firing, "COMMIT").await;
    });
    let schedule = timers.schedule("a").await;
    assert_eq!(schedule.fired, 1);
    assert!(schedule.last.is_some() && schedule.next > schedule.last);
    // The other way round: a schedule that a publish has locked is left to it.
    let publisher = timers.fixture.session().await;
    timers.sleep_since(3_610.0).await;
    let decisions = timers.decisions().await;
    let held = "BEGIN; SELECT FROM schedule FOR UPDATE";
    execute(&publisher, held).await;
    assert_eq!(timers.fire(&decisions).await, []);
    execute(&publisher, "ROLLBACK").await;
    assert_eq!(timers.fire(&decisions).await.len(), 1);
    timers.is_sound().await;
}

#[tokio::test]
async fn a_backlog_is_paged_oldest_first_and_spread_for_starts_that_are_due_now() {
    let timers = Timers::new().await;
    timers.publish(&[("a", json!({"interval": "01:00:00"}))]).await;
    let fill =
        "INSERT INTO schedule (tenant_id, id, definition_id, activity_id, activity_type, spec, anchor, tz_version,
                                      overlap, next_occurrence, next_fire)
                SELECT tenant_id, 's' || n, definition_id, 'a' || n, activity_type, spec,
                       now() - interval '1 hour' - (1300 - n) * interval '1 second', tz_version, overlap,
                       now() - (1300 - n) * interval '1 second', now() - (1300 - n) * interval '1 second'
                FROM schedule, generate_series(1, 1300) n";
    timers.execute(fill).await;
    assert_eq!(timers.fire_due().await, (500, 500));
    assert_eq!(timers.fire_due().await, (500, 500));
    assert_eq!(timers.fire_due().await, (300, 300));
    assert_eq!(timers.fire_due().await, (0, 0));
    let fixture = &timers.fixture;
    let out_of_turn = "SELECT count(*) FROM (SELECT substr(body->>'triggerActivityId', 2)::int AS n,
                       max(substr(body->>'triggerActivityId', 2)::int) OVER (ORDER BY id) AS latest FROM work) w
                       WHERE n <= latest - 500";
    assert_eq!(fixture.count(out_of_turn).await, 0);
    let at_once = "SELECT count(*) FROM work WHERE available_at <= created_at";
    let at_once = fixture.count(at_once).await;
    assert!(
        (5..=20).contains(&at_once),
        "{at_once}: what is due now, and the head of each page"
    );
    timers.is_sound().await;
}
