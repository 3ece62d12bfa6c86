//! The providers against the conformance suite, and what is specific to Postgres.

use super::{CacheNotification, CacheSignal, LocalSignal, PostgresSignal};
use crate::db::{Channel, SchemaName};
use crate::testing::conformance::signal::{Pair, change, conforms, next, receives};
use crate::testing::{TestDatabase, terminate_others};

#[tokio::test]
async fn the_local_provider_conforms() {
    conforms(async || {
        let one = LocalSignal::default();
        let pair: Pair = (Box::new(one.clone()), Box::new(one));
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
        let member = async || PostgresSignal::connect(&database.url(), &schema).await.unwrap();
        let pair: Pair = (Box::new(member().await), Box::new(member().await));
        pair
    })
    .await;
}

#[tokio::test]
async fn other_schemas_and_malformed_payloads_are_ignored() {
    let database = TestDatabase::create().await;
    let one = PostgresSignal::connect(&database.url(), "a").await.unwrap();
    let other = PostgresSignal::connect(&database.url(), "b").await.unwrap();
    let mut subscription = one.subscribe();
    let mut elsewhere = other.subscribe();
    other.notify(change(1, "b"));
    receives(&mut elsewhere, change(1, "b")).await;
    let client = database.connect().await;
    for payload in ["", "rubbish", "[]", "{\"definition\": 1}"] {
        let channel = Channel::Signals.plain(&SchemaName::parse("a").unwrap());
        let sql = "SELECT pg_notify($1, $2)";
        client.execute(sql, &[&channel, &payload]).await.unwrap();
    }
    one.notify(change(2, "a"));
    receives(&mut subscription, change(2, "a")).await;
}

#[tokio::test]
async fn a_lost_connection_invalidates_the_cache() {
    let database = TestDatabase::create().await;
    let one = PostgresSignal::connect(&database.url(), "a").await.unwrap();
    let mut subscription = one.subscribe();
    let client = database.connect().await;
    assert_eq!(terminate_others(&client).await, 1);
    assert_eq!(next(&mut subscription).await, CacheNotification::Invalidate);
    one.notify(change(1, "d"));
    receives(&mut subscription, change(1, "d")).await;
}
