//! A node that is stopped in the middle of a step, declared dead meanwhile, and wakes up believing that it owns all.

use std::path::PathBuf;

use serde_json::json;

use super::nodes::{Node, PATIENCE, all_finish, each_exactly_once, insist, publish};
use crate::support::{TestDatabase, poll_until};

/// Where a node stalls until it is opened.
pub(super) struct Gate(PathBuf);

impl Gate {
    pub(super) fn new() -> Self {
        Self(std::env::temp_dir().join(format!("mainspring-gate-{}", uuid::Uuid::new_v4().simple())))
    }

    pub(super) fn stalls(&self, point: &str) -> String {
        format!("{point}=stall:{}", self.0.display())
    }

    pub(super) async fn reached(&self) {
        let mark = self.0.with_extension("reached");
        poll_until(PATIENCE, "the node to come to the point", async || {
            mark.exists().then_some(())
        })
        .await;
    }

    pub(super) fn open(&self) {
        std::fs::write(&self.0, "").unwrap();
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
        let _ = std::fs::remove_file(self.0.with_extension("reached"));
    }
}

/// Stalls a node at a point, deletes its row, lets it go on: nothing of the old incarnation is written, and the process
/// comes back under a new one and finishes the work.
async fn wakes_up_dead(point: &str) {
    let database = TestDatabase::create().await;
    let gate = Gate::new();
    let node = Node::start_armed(&database, "one", &gate.stalls(point)).await;
    let http = node.http.clone().unwrap();
    publish(&http).await;
    http.post("workflow-definitions/walk/dispatch", &json!({"input": {"n": 1}}))
        .await
        .expect(200);
    gate.reached().await;
    let client = database.connect().await;
    let gone = "WITH f AS (DELETE FROM mainspring.fence), n AS (DELETE FROM mainspring.node RETURNING incarnation)
                SELECT incarnation FROM n";
    let dead: i64 = client.query_one(gone, &[]).await.unwrap().get(0);
    gate.open();
    // It notices, registers anew, and does it all again; what the dead one had in its hands is seen nowhere.
    let alive = poll_until(PATIENCE, "the node to register anew", async || {
        client
            .query_opt("SELECT incarnation FROM mainspring.node", &[])
            .await
            .unwrap()
            .map(|row| row.get::<_, i64>(0))
    })
    .await;
    assert!(alive > dead);
    insist("events/go-1/trigger", "e1", &json!({}), &mut || Some(http.clone())).await;
    all_finish(&client, 1).await;
    each_exactly_once(&database, &client, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_wakes_up_dead_with_a_finished_burst_writes_nothing() {
    wakes_up_dead("commit.gathered").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_wakes_up_dead_in_the_middle_of_a_burst_writes_nothing() {
    wakes_up_dead("burst.before").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_wakes_up_dead_with_fresh_claims_runs_nothing_twice() {
    wakes_up_dead("claim.after").await;
}
