//! What integration tests share: a database each, child processes, an HTTP client, and waiting without sleeping.

pub(crate) mod browser;
pub(crate) mod cases;
pub(crate) mod certificates;
mod child;
mod clock;
pub(crate) mod collector;
mod database;
pub(crate) mod elsa_client;
pub(crate) mod elsa_workflows;
pub(crate) mod engine;
pub(crate) mod failpoints;
mod gate;
pub(crate) mod haproxy;
mod http;
pub(crate) mod node;
pub(crate) mod openapi;
pub(crate) mod openid_provider;
pub(crate) mod prefix_proxy;
pub(crate) mod process;
mod proxy;
#[cfg(feature = "rabbitmq")]
pub(crate) mod rabbitmq;
pub(crate) mod receiver;
#[cfg(feature = "redis")]
pub(crate) mod redis;
#[cfg(feature = "redis")]
pub(crate) mod redis_cluster;
pub(crate) mod routes;
pub(crate) mod schedule_load;
#[cfg(feature = "redis")]
pub(crate) mod sentinels;
mod server;
pub(crate) mod single_node;
pub(crate) mod smtp;
pub(crate) mod three_nodes;

pub(crate) use child::{Child, assert_wrong_server, command, in_environment};
pub(crate) use clock::Clock;
pub(crate) use database::{Connection, TestDatabase};
pub(crate) use gate::Gate;
pub(crate) use http::{Answer, Http, assert_fields, client_builder, compare_fields};
pub(crate) use proxy::Proxy;
pub(crate) use server::{Server, Stop};

use std::time::{Duration, Instant};

/// How long one step of a test may take on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// The same for steps of many processes.
pub(crate) const LONG_TIMEOUT: Duration = Duration::from_secs(120);

/// Whether `scripts/test --long` runs this.
pub(crate) fn long() -> bool {
    std::env::var_os("MAINSPRING_TEST_LONG").is_some_and(|value| !value.is_empty() && value != "0")
}

/// Polls until there is an answer; past the deadline the test fails and names `what` it waited for. A probe that takes long
/// is asked less often, so that it does not keep the processors from what it waits for.
pub(crate) async fn poll_until<T>(deadline: Duration, what: &str, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let began = Instant::now();
    let mut pause = Duration::from_millis(2);
    loop {
        // A probe that hangs must not hang the test.
        let left = deadline.saturating_sub(began.elapsed());
        let asked = Instant::now();
        match tokio::time::timeout(left, probe()).await {
            Ok(Some(answer)) => return answer,
            Ok(None) if began.elapsed() < deadline => {
                let rest = (asked.elapsed() * 4).min(Duration::from_millis(500));
                tokio::time::sleep(pause.max(rest)).await;
                pause = (pause * 2).min(Duration::from_millis(50));
            }
            _ => panic!("waited {deadline:?} in vain for {what}"),
        }
    }
}

/// Polls until a condition holds.
pub(crate) async fn wait_until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    poll_until(TIMEOUT, what, async || holds().await.then_some(())).await;
}

/// The text has all these parts.
#[track_caller]
pub(crate) fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
}

impl Connection {
    /// The number that a query gives.
    pub(crate) async fn count(&self, query: &str) -> i64 {
        self.query_one(query, &[]).await.unwrap().get(0)
    }

    /// The number of rows of a table of the engine, with a `WHERE` or not.
    pub(crate) async fn rows(&self, of: &str) -> i64 {
        self.count(&format!("SELECT count(*) FROM mainspring.{of}")).await
    }

    /// Runs statements.
    pub(crate) async fn run(&self, statements: &str) {
        self.batch_execute(statements).await.unwrap();
    }

    /// Waits until there are so many rows.
    pub(crate) async fn wait_for_rows(&self, of: &str, count: i64) {
        let what = format!("{count} rows of {of}");
        wait_until(&what, async || self.rows(of).await == count).await;
    }
}

impl TestDatabase {
    /// Whether the server lets new connections to it in.
    pub(crate) async fn allow_connections(&self, allowed: bool) {
        let alter = format!("ALTER DATABASE {} ALLOW_CONNECTIONS {allowed}", self.name());
        self.connect_to_server().await.batch_execute(&alter).await.unwrap();
    }

    /// Ends all its connections, and lets no new ones in.
    pub(crate) async fn lock_out(&self) {
        self.allow_connections(false).await;
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1";
        self.connect_to_server()
            .await
            .query(end, &[&self.name()])
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn poll_until_gives_the_first_answer() {
    let mut left = 3;
    let answer = poll_until(Duration::from_secs(5), "the count to end", async || {
        left -= 1;
        (left == 0).then_some("ended")
    })
    .await;
    assert_eq!(answer, "ended");
}

#[tokio::test]
#[should_panic(expected = "in vain for what never comes")]
async fn poll_until_says_what_it_waited_for() {
    let never = async || {
        std::future::pending::<()>().await;
        None::<()>
    };
    poll_until(Duration::from_millis(20), "what never comes", never).await;
}

#[test]
fn the_long_tests_run_only_when_asked_for() {
    assert_eq!(
        long(),
        std::env::var("MAINSPRING_TEST_LONG").is_ok_and(|value| value == "1")
    );
}
