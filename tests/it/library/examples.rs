//! The examples do what they say.

use serde_json::json;

use crate::support::TestDatabase;
use crate::support::node::assert_invariants;

#[path = "../../../examples/control_flow.rs"]
#[allow(dead_code)]
mod control_flow;

#[path = "../../../examples/early_event.rs"]
#[allow(dead_code)]
mod early_event;
#[path = "../../../examples/locks.rs"]
#[allow(dead_code)]
mod locks;
#[path = "../../../examples/timers.rs"]
#[allow(dead_code)]
mod timers;

#[tokio::test]
async fn the_example_of_control_flow_pays_with_its_third_attempt() {
    let database = TestDatabase::create().await;
    let output = control_flow::run(&database.url()).await.unwrap();
    assert_eq!(output, json!({"Receipt": "receipt 3"}));
    assert_invariants(&database).await;
}

#[tokio::test]
async fn the_example_of_an_early_event_gives_it_to_the_instance() {
    let database = TestDatabase::create().await;
    let output = early_event::run(&database.url()).await.unwrap();
    assert_eq!(output, json!({"Paid": 1200}));
    assert_invariants(&database).await;
}

#[tokio::test]
async fn the_example_of_timers_counts_each_delay_once() {
    let database = TestDatabase::create().await;
    assert_eq!(timers::run(&database.url()).await.unwrap(), 20);
    assert_invariants(&database).await;
}

#[tokio::test]
async fn the_example_of_locks_gets_growing_tokens() {
    let database = TestDatabase::create().await;
    let tokens = locks::run(&database.url()).await.unwrap();
    assert_eq!(tokens.len(), 6);
    assert!(tokens.is_sorted_by(|earlier, later| earlier < later), "{tokens:?}");
}
