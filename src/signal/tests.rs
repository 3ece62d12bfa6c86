//! The providers against the conformance suite, and what is peculiar to Postgres.

use super::conformance::{Pair, change, conforms, next};
use super::{CacheSignal, Heard, LocalSignal, PostgresSignal};
use crate::db::{Channel, SchemaName};
use crate::test_database::TestDatabase;

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
async fn only_the_own_schema_is_heard_and_nothing_that_no_node_wrote() {
    let database = TestDatabase::create().await;
    let one = PostgresSignal::connect(&database.url(), "a").await.unwrap();
    let other = PostgresSignal::connect(&database.url(), "b").await.unwrap();
    let mut signals = one.listen();
    let mut elsewhere = other.listen();
    other.announce(change(1, "b"));
    assert_eq!(next(&mut elsewhere).await, Heard::Changed(change(1, "b")));
    let client = database.connect().await;
    for payload in ["", "rubbish", "[]", "{\"definition\": 1}"] {
        let channel = Channel::Signals.plain(&SchemaName::parse("a").unwrap());
        let sql = "SELECT pg_notify($1, $2)";
        client.execute(sql, &[&channel, &payload]).await.unwrap();
    }
    one.announce(change(2, "a"));
    assert_eq!(next(&mut signals).await, Heard::Changed(change(2, "a")));
}

#[tokio::test]
async fn after_a_lost_connection_nothing_is_sure() {
    let database = TestDatabase::create().await;
    let one = PostgresSignal::connect(&database.url(), "a").await.unwrap();
    let mut signals = one.listen();
    let client = database.connect().await;
    let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    assert_eq!(client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0), 1);
    assert_eq!(next(&mut signals).await, Heard::Unsure);
    one.announce(change(1, "d"));
    assert_eq!(next(&mut signals).await, Heard::Changed(change(1, "d")));
}
