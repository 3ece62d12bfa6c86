//! The examples do what they say.

use serde_json::json;

use crate::support::TestDatabase;
use crate::support::node::assert_invariants;

#[path = "../../../examples/control_flow.rs"]
#[allow(dead_code)]
mod control_flow;

#[tokio::test]
async fn the_example_of_control_flow_pays_with_its_third_attempt() {
    let database = TestDatabase::create().await;
    let output = control_flow::run(&database.url()).await.unwrap();
    assert_eq!(output, json!({"Receipt": "receipt 3"}));
    assert_invariants(&database).await;
}
