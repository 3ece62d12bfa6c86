//! A node that stalls within a step, expires meanwhile, and continues with its former claims.

use serde_json::json;

use crate::support::node::{Node, assert_each_exactly_once, publish, send_until_answered, wait_until_finished};
use crate::support::{Gate, TIMEOUT, TestDatabase, poll_until};

/// Stalls a node at a point, deletes its row, lets it continue: nothing of the old incarnation is written, and the process
/// comes back under a new one and finishes the work.
async fn goes_on_after_expiry(point: &str) {
    let database = TestDatabase::create().await;
    let gate = Gate::new();
    let node = Node::start_armed(&database, "one", &gate.stalls(point)).await;
    let http = node.http.clone().unwrap();
    publish(&http).await;
    http.dispatch("walk", &json!({"input": {"n": 1}})).await;
    gate.reached().await;
    let client = database.connect().await;
    let gone = "WITH f AS (DELETE FROM mainspring.fence), n AS (DELETE FROM mainspring.node RETURNING incarnation)
                SELECT incarnation FROM n";
    let dead = client.count(gone).await;
    gate.open();
    // It notices, registers anew, and repeats the work; nothing of the expired incarnation is written.
    let alive = poll_until(TIMEOUT, "the node to register anew", async || {
        client
            .query_opt("SELECT incarnation FROM mainspring.node", &[])
            .await
            .unwrap()
            .map(|row| row.get::<_, i64>(0))
    })
    .await;
    assert!(alive > dead);
    send_until_answered("events/go-1/trigger", "e1", &json!({}), &mut || Some(http.clone())).await;
    wait_until_finished(&client, 1).await;
    assert_each_exactly_once(&database, &client, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_node_that_goes_on_with_a_finished_burst_writes_nothing() {
    goes_on_after_expiry("commit.gathered").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_node_that_goes_on_within_a_burst_writes_nothing() {
    goes_on_after_expiry("burst.before").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_node_that_goes_on_with_fresh_claims_runs_nothing_twice() {
    goes_on_after_expiry("claim.after").await;
}
