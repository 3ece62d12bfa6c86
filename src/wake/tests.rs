//! The providers against the conformance suite, and what is peculiar to Postgres.

use std::time::Duration;

use super::conformance::{Pair, conforms};
use super::{Hint, Hints, LocalHub, PostgresWake, WakeTransport};
use crate::db::{Channel, SchemaName};
use crate::id::{InstanceId, WorkId};
use crate::test_database::TestDatabase;

#[tokio::test]
async fn the_local_provider_conforms() {
    conforms(async || {
        let hub = LocalHub::default();
        let pair: Pair = (Box::new(hub.member()), Box::new(hub.member()));
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
    Channel::Hints.plain(&SchemaName::parse("a").unwrap())
}

async fn next(hints: &mut Hints) -> Vec<Hint> {
    let heard = tokio::time::timeout(Duration::from_secs(60), hints.recv()).await;
    heard.expect("heard nothing").expect("the transport ended").to_vec()
}

#[tokio::test]
async fn only_the_own_schema_is_heard_and_nothing_that_no_node_wrote() {
    let database = TestDatabase::create().await;
    let [one, two, other] = ["a", "a", "b"].map(|schema| (database.url(), schema));
    let one = PostgresWake::connect(&one.0, one.1).await.unwrap();
    let two = PostgresWake::connect(&two.0, two.1).await.unwrap();
    let other = PostgresWake::connect(&other.0, other.1).await.unwrap();
    let mut heard = two.listen();
    other.send(vec![Hint::Look]);
    let client = database.connect().await;
    for payload in ["", "rubbish", "{\"from\": \"x\"}", "{\"from\": \"x\", \"no\": -1}"] {
        client
            .execute("SELECT pg_notify($1, $2)", &[&channel(), &payload])
            .await
            .unwrap();
    }
    one.send(vec![Hint::Done(WorkId(1))]);
    assert_eq!(next(&mut heard).await, [Hint::Done(WorkId(1))]);
}

#[tokio::test]
async fn a_number_that_was_missed_means_look() {
    let database = TestDatabase::create().await;
    let two = PostgresWake::connect(&database.url(), "a").await.unwrap();
    let mut heard = two.listen();
    let client = database.connect().await;
    for (no, expected) in [(3, vec![]), (4, vec![]), (6, vec![Hint::Look]), (7, vec![])] {
        let payload = format!(r#"{{"from": "x", "no": {no}}}"#);
        client
            .execute("SELECT pg_notify($1, $2)", &[&channel(), &payload])
            .await
            .unwrap();
        assert_eq!(next(&mut heard).await, expected, "{no}");
    }
}

#[tokio::test]
async fn after_a_lost_connection_both_sides_look_and_go_on() {
    let database = TestDatabase::create().await;
    let one = PostgresWake::connect(&database.url(), "a").await.unwrap();
    let two = PostgresWake::connect(&database.url(), "a").await.unwrap();
    let (mut at_one, mut at_two) = (one.listen(), two.listen());
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
    // What is said while nobody can hear it is not lost for good.
    one.send(vec![Hint::Waits(InstanceId::new("i"))]);
    assert_eq!(next(&mut at_two).await, [Hint::Look]);
    assert_eq!(next(&mut at_one).await, [Hint::Look]);
    // A side may still be on its way back: what it misses now is a `Look` to it, so it is told again.
    insist(&two, &mut at_one, Hint::Done(WorkId(1))).await;
    insist(&one, &mut at_two, Hint::Done(WorkId(2))).await;
}

/// Sends a hint until it is heard.
async fn insist(from: &PostgresWake, to: &mut Hints, hint: Hint) {
    let heard = async {
        loop {
            from.send(vec![hint.clone()]);
            let heard = tokio::time::timeout(Duration::from_millis(100), to.recv()).await;
            if heard.is_ok_and(|hints| hints.expect("the transport ended").contains(&hint)) {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), heard)
        .await
        .expect("never heard");
}
