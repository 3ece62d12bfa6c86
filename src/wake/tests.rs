//! The providers against the conformance suite, and what is specific to Postgres.

use std::time::Duration;

use tokio_postgres::Client;

use super::{LocalWake, PostgresWake, WakeNotification, WakeSubscription, WakeTransport};
use crate::db::{Channel, SchemaName};
use crate::id::{InstanceId, WorkId};
use crate::testing::conformance::wake::{Pair, conforms, next};
use crate::testing::{TestDatabase, terminate_others};

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
        let (one, two) = (member(&database, &schema).await, member(&database, &schema).await);
        let pair: Pair = (Box::new(one), Box::new(two));
        pair
    })
    .await;
}

async fn member(database: &TestDatabase, schema: &str) -> PostgresWake {
    PostgresWake::connect(&database.url(), schema).await.unwrap()
}

/// Notifies the members of schema `a`.
async fn notify(client: &Client, payload: &str) {
    let channel = Channel::WakeNotifications.plain(&SchemaName::parse("a").unwrap());
    let sql = "SELECT pg_notify($1, $2)";
    client.execute(sql, &[&channel, &payload]).await.unwrap();
}

#[tokio::test]
async fn other_schemas_and_malformed_payloads_are_ignored() {
    let database = TestDatabase::create().await;
    let (one, two) = (member(&database, "a").await, member(&database, "a").await);
    let other = member(&database, "b").await;
    let mut subscription = two.subscribe();
    other.notify(vec![WakeNotification::Poll]);
    let client = database.connect().await;
    for payload in ["", "rubbish", "{\"from\": \"x\"}", "{\"from\": \"x\", \"no\": -1}"] {
        notify(&client, payload).await;
    }
    one.notify(vec![WakeNotification::WorkDone(WorkId(1))]);
    assert_eq!(*next(&mut subscription).await, [WakeNotification::WorkDone(WorkId(1))]);
}

#[tokio::test]
async fn a_gap_in_the_numbers_means_poll() {
    let database = TestDatabase::create().await;
    let two = member(&database, "a").await;
    let mut subscription = two.subscribe();
    let client = database.connect().await;
    for (no, expected) in [(3, vec![]), (4, vec![]), (6, vec![WakeNotification::Poll]), (7, vec![])] {
        notify(&client, &format!(r#"{{"from": "x", "no": {no}}}"#)).await;
        assert_eq!(*next(&mut subscription).await, *expected, "{no}");
    }
}

#[tokio::test]
async fn after_a_lost_connection_both_sides_poll_and_go_on() {
    let database = TestDatabase::create().await;
    let (one, two) = (member(&database, "a").await, member(&database, "a").await);
    let (mut at_one, mut at_two) = (one.subscribe(), two.subscribe());
    let client = database.connect().await;
    assert_eq!(terminate_others(&client).await, 2);
    // What is sent while no member can receive it is made up for by a poll.
    one.notify(vec![WakeNotification::WorkReady(InstanceId::new("i"))]);
    assert_eq!(*next(&mut at_two).await, [WakeNotification::Poll]);
    assert_eq!(*next(&mut at_one).await, [WakeNotification::Poll]);
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
