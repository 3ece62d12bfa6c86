//! Providers of another crate: the example against the public suites, and in an engine.

use serde_json::json;

use super::providers_example as example;
use crate::support::TestDatabase;
use mainspring::testing::conformance::{lock, signal, wake};
use mainspring::{Result, check};
use std::sync::Arc;

use example::{Board, BoardSignal, BoardWake};

struct Members(Board);

impl lock::LockMembers for Members {
    async fn provider(&self) -> Arc<dyn mainspring::lock::LockProvider> {
        Arc::new(self.0.clone())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_provider_of_another_crate_passes_the_suite() {
    lock::conforms(async || Members(Board::default())).await;
}

#[tokio::test]
async fn a_signal_of_another_crate_passes_the_suite() {
    signal::conforms(async || {
        let one = BoardSignal::default();
        let pair: signal::Pair = (Box::new(one.clone()), Box::new(one));
        pair
    })
    .await;
}

#[tokio::test]
async fn a_wake_transport_of_another_crate_passes_the_suite() {
    wake::conforms(async || {
        let hub = BoardWake::default();
        let pair: wake::Pair = (Box::new(hub.member()), Box::new(hub.member()));
        pair
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn engines_run_on_providers_of_another_crate() -> Result<()> {
    let database = TestDatabase::create().await;
    assert_eq!(example::run(&database.url()).await?, json!({"Text": "hello"}));
    assert_eq!(check(&database.url(), "mainspring_providers").await?, []);
    Ok(())
}
