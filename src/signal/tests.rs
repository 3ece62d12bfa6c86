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

#[cfg(feature = "redis")]
mod redis {
    use super::*;
    use crate::signal::RedisSignal;
    use crate::testing::{RedisCluster, RedisProcess};

    async fn member(server: &RedisProcess, name: &str) -> RedisSignal {
        RedisSignal::connect(&server.url(), name).await.unwrap()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_redis_provider_conforms() {
        let server = RedisProcess::start();
        let mut cluster = 0;
        conforms(async || {
            cluster += 1;
            let name = format!("cluster{cluster}");
            let pair: Pair = (
                Box::new(member(&server, &name).await),
                Box::new(member(&server, &name).await),
            );
            pair
        })
        .await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn other_clusters_and_malformed_messages_are_ignored() {
        let server = RedisProcess::start();
        let (one, other) = (member(&server, "a").await, member(&server, "b").await);
        let (mut here, mut elsewhere) = (one.subscribe(), other.subscribe());
        other.notify(change(1, "b"));
        receives(&mut elsewhere, change(1, "b")).await;
        let long = "x".repeat(20_000);
        for payload in ["", "rubbish", "[]", "{\"definition\": 1}", &long] {
            assert_eq!(server.run(&["PUBLISH", "mainspring:signal:1:0:a", payload]), "1");
        }
        one.notify(change(2, "a"));
        receives(&mut here, change(2, "a")).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn each_new_subscription_invalidates_the_cache() {
        let mut server = RedisProcess::start();
        let one = member(&server, "a").await;
        let mut subscription = one.subscribe();
        // A connection that is closed alone, and then the server.
        server.run(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        assert_eq!(next(&mut subscription).await, CacheNotification::Invalidate);
        assert!(!one.is_away());
        server.kill();
        let away = async |is_away| {
            while one.is_away() != is_away {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        away(true).await;
        one.notify(change(1, "lost"));
        server.restart();
        assert_eq!(next(&mut subscription).await, CacheNotification::Invalidate);
        away(false).await;
        // What was queued meanwhile may come, too.
        one.notify(change(2, "d"));
        while next(&mut subscription).await != CacheNotification::Changed(change(2, "d")) {}
    }

    /// What is published at one node of a cluster is received at the others; the subscription survives the master of the nonce.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_cluster_conforms_and_carries_on_without_one_of_its_masters() {
        let mut servers = RedisCluster::start();
        let url = servers.url();
        let mut cluster = 0;
        let pair = async |name: &str| {
            let member = async || RedisSignal::connect(&url, name).await.unwrap();
            let pair: Pair = (Box::new(member().await), Box::new(member().await));
            pair
        };
        conforms(async || {
            cluster += 1;
            pair(&format!("cluster{cluster}")).await
        })
        .await;
        let (one, other) = pair("a").await;
        let mut subscription = other.subscribe();
        let away = servers.master_of("mainspring:nonce").port();
        let master = servers.nodes.iter_mut().find(|node| node.port() == away).unwrap();
        master.kill();
        // What was published before the connections are replaced is lost.
        let mut revision = 0;
        let received = async {
            loop {
                revision += 1;
                one.notify(change(revision, "d"));
                let next = tokio::time::timeout(std::time::Duration::from_millis(200), next(&mut subscription));
                if let Ok(CacheNotification::Changed(_)) = next.await {
                    break;
                }
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(30), received)
            .await
            .unwrap();
        assert!(!one.is_away() && !other.is_away());
    }
}
