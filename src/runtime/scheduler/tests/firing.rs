//! Who fires: one node, once, also beside a publish.

use chrono::TimeDelta;
use postgres_types::ToSql;
use serde_json::json;
use tokio_postgres::Client;

use super::timers::{Timers, parts};
use crate::runtime::scheduler::decide::FireDecision;

const FIRE: &str = include_str!("../../../../sql/queries/schedule/fire.sql");

/// Fires in a session of somebody else.
async fn fire_in(client: &Client, sql: &str, turns: &[FireDecision]) -> u64 {
    let (rows, starts) = parts(turns);
    let params: [&(dyn ToSql + Sync); 4] = [&rows, &starts, &false, &"other"];
    client.execute(sql, &params).await.unwrap()
}

#[tokio::test]
async fn an_occurrence_fires_once_with_its_time() {
    let timers = Timers::new().await;
    timers.publish(&[("a", json!({"interval": "01:00:00"}))]).await;
    assert_eq!(timers.look().await, (0, 0));
    timers.sleep_since(3_610.0).await;
    let before = timers.stands("a").await;
    let turns = timers.decisions().await;
    assert_eq!(turns.len(), 1);
    assert_eq!(timers.fire(&turns).await[0].accepted, 1);
    // Whoever decided by what it saw before does nothing.
    assert_eq!(timers.fire(&turns).await, []);
    assert_eq!(timers.look().await, (0, 0));
    let after = timers.stands("a").await;
    let occurrence = before.anchor + TimeDelta::hours(1);
    assert_eq!(after.last, Some(occurrence));
    assert_eq!(after.next, Some(occurrence + TimeDelta::hours(1)));
    assert_eq!((after.fired, after.misfired, after.skipped), (1, 0, 0));
    let starts = timers.starts().await;
    assert_eq!(starts.len(), 1);
    assert_eq!(starts[0].1["scheduleId"], json!(after.id));
    let told: chrono::DateTime<chrono::Utc> = starts[0].1["occurrence"].as_str().unwrap().parse().unwrap();
    assert_eq!(told, occurrence);
    timers.is_sound().await;
}

#[tokio::test]
async fn of_two_nodes_that_fire_at_the_same_moment_one_does() {
    for (commits, sql) in [
        (true, FIRE.to_owned()),
        (false, FIRE.to_owned()),
        // The comparison alone decides, too, with a snapshot that is older than what it finds.
        (true, FIRE.replace(" SKIP LOCKED", "")),
    ] {
        let waits = !sql.contains("SKIP LOCKED");
        let timers = Timers::new().await;
        timers.publish(&[("a", json!({"interval": "01:00:00"}))]).await;
        timers.sleep_since(3_610.0).await;
        let turns = timers.decisions().await;
        let (one, two) = (timers.fixture.session().await, timers.fixture.session().await);
        one.client.batch_execute("BEGIN").await.unwrap();
        two.client.batch_execute("BEGIN").await.unwrap();
        assert_eq!(fire_in(&one.client, &sql, &turns).await, 1);
        let second = fire_in(&two.client, &sql, &turns);
        let end = if commits { "COMMIT" } else { "ROLLBACK" };
        if waits {
            let (second, ()) = tokio::join!(second, async {
                timers.fixture.somebody_waits().await;
                one.client.batch_execute(end).await.unwrap();
            });
            assert_eq!(second, 0);
        } else {
            assert_eq!(second.await, 0);
            one.client.batch_execute(end).await.unwrap();
        }
        two.client.batch_execute("COMMIT").await.unwrap();
        let made = if commits { (0, 0) } else { (1, 1) };
        assert_eq!(timers.look().await, made);
        assert_eq!(timers.starts().await.len(), 1);
        timers.is_sound().await;
    }
}

#[tokio::test]
async fn an_instance_of_an_occurrence_is_there_once_whatever_became_of_its_schedule() {
    let timers = Timers::new().await;
    let once = json!({"dateTime": "2020-01-01T00:00:00Z"});
    timers.publish(&[("a", once.clone())]).await;
    assert_eq!(timers.look().await, (1, 1));
    // Gone, and there again: nobody knows any more that it has fired.
    timers.publish(&[]).await;
    timers.publish(&[("a", once)]).await;
    assert_eq!(timers.stands("a").await.last, None);
    assert_eq!(timers.look().await, (1, 0));
    assert_eq!(timers.starts().await.len(), 1);
    assert_eq!(timers.stands("a").await.skipped, 1);
    timers.is_sound().await;
}

#[tokio::test]
async fn a_publish_keeps_what_is_unchanged_and_never_goes_back() {
    let timers = Timers::new().await;
    let hourly = json!({"interval": "01:00:00"});
    timers.publish(&[("a", hourly.clone()), ("b", hourly.clone())]).await;
    timers.sleep_since(3_610.0).await;
    let stale = timers.decisions().await;
    let before = timers.stands("a").await;
    // Unchanged: what was decided before the publish still holds.
    timers.publish(&[("a", hourly.clone()), ("c", hourly)]).await;
    assert_eq!(timers.stands("a").await.version, before.version);
    assert_eq!(timers.fixture.count("SELECT count(*) FROM schedule").await, 2);
    assert_eq!(timers.fire(&stale).await.len(), 1, "b is gone");
    let fired = timers.stands("a").await;
    let stale = {
        timers.sleep_since(7_210.0).await;
        timers.decisions().await
    };
    // Changed: it takes effect at once, and what was decided by the old one is void.
    timers.publish(&[("a", json!({"cronExpression": "* * * * *"}))]).await;
    assert_eq!(timers.fire(&stale).await, []);
    let changed = timers.stands("a").await;
    assert!(changed.next.unwrap() - changed.anchor <= TimeDelta::minutes(1));
    assert_eq!(changed.fired, fired.fired);
    // A clock that was ahead has fired what is still to come: not again.
    let sql =
        "UPDATE schedule SET version = version + 1, last_occurrence = date_trunc('minute', now()) + interval '1 hour'";
    timers.fixture.admin.client.execute(sql, &[]).await.unwrap();
    timers.publish(&[("a", json!({"cronExpression": "*/1 * * * *"}))]).await;
    let ahead = timers.stands("a").await;
    assert_eq!(ahead.next.unwrap() - ahead.last.unwrap(), TimeDelta::minutes(1));
    timers.is_sound().await;
}

#[tokio::test]
async fn what_is_settled_is_never_decided_again_whatever_somebody_has_decided() {
    let timers = Timers::new().await;
    timers.publish(&[("a", json!({"interval": "01:00:00"}))]).await;
    timers.sleep_since(3_610.0).await;
    let turns = timers.decisions().await;
    // By hand, or by a program with a fault: the version says nothing of it.
    let ahead = "UPDATE schedule SET last_occurrence = now(), next_occurrence = now() + interval '1 hour'";
    timers.fixture.admin.client.execute(ahead, &[]).await.unwrap();
    assert_eq!(timers.fire(&turns).await, []);
    assert_eq!(timers.starts().await.len(), 0);
    timers.is_sound().await;
}

#[tokio::test]
async fn what_is_paused_is_neither_due_nor_fired() {
    let timers = Timers::new().await;
    timers.publish(&[("a", json!({"interval": "01:00:00"}))]).await;
    timers.sleep_since(3_610.0).await;
    let turns = timers.decisions().await;
    let pause = "UPDATE schedule SET paused = true";
    timers.fixture.admin.client.execute(pause, &[]).await.unwrap();
    assert!(timers.decisions().await.is_empty());
    assert_eq!(timers.fire(&turns).await, []);
    assert_eq!(timers.starts().await.len(), 0);
    timers.is_sound().await;
}

#[tokio::test]
async fn a_publish_waits_for_who_fires_and_firing_for_no_publish() {
    let timers = Timers::new().await;
    timers.publish(&[("a", json!({"interval": "01:00:00"}))]).await;
    timers.sleep_since(3_610.0).await;
    let turns = timers.decisions().await;
    let firing = timers.fixture.session().await;
    firing.client.batch_execute("BEGIN").await.unwrap();
    assert_eq!(fire_in(&firing.client, FIRE, &turns).await, 1);
    let half_hourly = [("a", json!({"interval": "00:30:00"}))];
    let publishing = timers.publish(&half_hourly);
    tokio::join!(publishing, async {
        timers.fixture.somebody_waits().await;
        firing.client.batch_execute("COMMIT").await.unwrap();
    });
    let stands = timers.stands("a").await;
    assert_eq!(stands.fired, 1);
    assert!(stands.last.is_some() && stands.next > stands.last);
    // The other way round: what a publish has in its hands is left to it.
    let publisher = timers.fixture.session().await;
    timers.sleep_since(3_610.0).await;
    let turns = timers.decisions().await;
    let held = "BEGIN; SELECT FROM schedule FOR UPDATE";
    publisher.client.batch_execute(held).await.unwrap();
    assert_eq!(timers.fire(&turns).await, []);
    publisher.client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(timers.fire(&turns).await.len(), 1);
    timers.is_sound().await;
}

#[tokio::test]
async fn a_backlog_is_paged_oldest_first_and_what_is_due_now_comes_in_between() {
    let timers = Timers::new().await;
    timers.publish(&[("a", json!({"interval": "01:00:00"}))]).await;
    let fill =
        "INSERT INTO schedule (tenant_id, id, definition_id, activity_id, activity_type, spec, anchor, tz_version,
                                      overlap, next_occurrence, next_fire)
                SELECT tenant_id, 's' || n, definition_id, 'a' || n, activity_type, spec,
                       now() - interval '1 hour' - (1300 - n) * interval '1 second', tz_version, overlap,
                       now() - (1300 - n) * interval '1 second', now() - (1300 - n) * interval '1 second'
                FROM schedule, generate_series(1, 1300) n";
    timers.fixture.admin.client.batch_execute(fill).await.unwrap();
    assert_eq!(timers.look().await, (500, 500));
    assert_eq!(timers.look().await, (500, 500));
    assert_eq!(timers.look().await, (300, 300));
    assert_eq!(timers.look().await, (0, 0));
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
