//! The providers against the conformance suite, and what is specific to Postgres.

use std::time::Duration;

use super::conformance::{Pair, conforms};
use super::{LocalWake, PostgresWake, WakeNotification, WakeSubscription, WakeTransport};
use crate::db::{Channel, SchemaName};
use crate::id::{InstanceId, WorkId};
use crate::testing::TestDatabase;

#[tokio::test]
async fn the_local_provider_conforms() {
    conforms(async || {
        let local = LocalWake::default();
        let pair: Pair = (Box::new(local.member()), Box::new(local.member()));
        pair
    })
    .await;
}

#[tokio::test]
async fn the_postgres_provider_conforms() {
    let database = TestDatabase::create().await;
    let mut cluster = 0;
    conforms(async || {
        cluster += 1;
        let schema = format!("cluster{cluster}");
        let member = async || PostgresWake::connect(&database.url(), &schema).await.unwrap();
        let pair: Pair = (Box::new(member().await), Box::new(member().await));
        pair
    })
    .await;
}

fn channel() -> String {
    Channel::WakeUps.plain(&SchemaName::parse("a").unwrap())
}

async fn next(subscription: &mut WakeSubscription) -> Vec<WakeNotification> {
    let received = tokio::time::timeout(Duration::from_secs(60), subscription.recv()).await;
    received
        .expect("received nothing")
        .expect("the transport ended")
        .to_vec()
}

#[tokio::test]
async fn other_schemas_and_malformed_payloads_are_ignored() {
    let database = TestDatabase::create().await;
    let [one, two, other] = ["a", "a", "b"].map(|schema| (database.url(), schema));
    let one = PostgresWake::connect(&one.0, one.1).await.unwrap();
    let two = PostgresWake::connect(&two.0, two.1).await.unwrap();
    let other = PostgresWake::connect(&other.0, other.1).await.unwrap();
    let mut subscription = two.subscribe();
    other.notify(vec![WakeNotification::Poll]);
    let client = database.connect().await;
    for payload in ["", "rubbish", "{\"from\": \"x\"}", "{\"from\": \"x\", \"no\": -1}"] {
        client
            .execute("SELECT pg_notify($1, $2)", &[&channel(), &payload])
            .await
            .unwrap();
    }
    one.notify(vec![WakeNotification::WorkDone(WorkId(1))]);
    assert_eq!(next(&mut subscription).await, [WakeNotification::WorkDone(WorkId(1))]);
}

#[tokio::test]
async fn a_gap_in_the_numbers_means_poll() {
    let database = TestDatabase::create().await;
    let two = PostgresWake::connect(&database.url(), "a").await.unwrap();
    let mut subscription = two.subscribe();
    let client = database.connect().await;
    for (no, expected) in [(3, vec![]), (4, vec![]), (6, vec![WakeNotification::Poll]), (7, vec![])] {
        let payload = format!(r#"{{"from": "x", "no": {no}}}"#);
        client
            .execute("SELECT pg_notify($1, $2)", &[&channel(), &payload])
            .await
            .unwrap();
        assert_eq!(next(&mut subscription).await, expected, "{no}");
    }
}

#[tokio::test]
async fn after_a_lost_connection_both_sides_poll_and_go_on() {
    let database = TestDatabase::create().await;
    let one = PostgresWake::connect(&database.url(), "a").await.unwrap();
    let two = PostgresWake::connect(&database.url(), "a").await.unwrap();
    let (mut at_one, mut at_two) = (one.subscribe(), two.subscribe());
    let client = database.connect().await;
    let killed: i64 = client
        .query_one(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
             WHERE datname = current_database() AND pid <> pg_backend_pid()",
            &[],
        )
        .await
        .unwrap()
        .get(0);
    assert_eq!(killed, 2);
    // What is sent while no member can receive it is made up for by a poll.
    one.notify(vec![WakeNotification::WorkReady(InstanceId::new("i"))]);
    assert_eq!(next(&mut at_two).await, [WakeNotification::Poll]);
    assert_eq!(next(&mut at_one).await, [WakeNotification::Poll]);
    // A member may still be reconnecting, and receives a `Poll` instead: the notification is repeated.
    notify_until_received(&two, &mut at_one, WakeNotification::WorkDone(WorkId(1))).await;
    notify_until_received(&one, &mut at_two, WakeNotification::WorkDone(WorkId(2))).await;
}

/// Repeats a notification until it is received.
async fn notify_until_received(from: &PostgresWake, to: &mut WakeSubscription, notification: WakeNotification) {
    let received = async {
        loop {
            from.notify(vec![notification.clone()]);
            let received = tokio::time::timeout(Duration::from_millis(100), to.recv()).await;
            if received.is_ok_and(|received| received.expect("the transport ended").contains(&notification)) {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), received)
        .await
        .expect("never received");
}
