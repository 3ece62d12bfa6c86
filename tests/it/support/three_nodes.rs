//! A cluster of three nodes on one database.

use serde_json::json;

use super::node::{NAMES, Node, assert_each_exactly_once, publish, send_event, start_walk, wait_until_finished, walk};
use super::{Connection, TIMEOUT, TestDatabase, poll_until, wait_until};

/// Short, so that the tests are.
pub(crate) const TOLERANCE: [&str; 2] = ["--tolerance", "1s"];

/// Three nodes, the first of them armed.
pub(crate) struct ThreeNodes {
    pub(crate) database: TestDatabase,
    pub(crate) client: Connection,
    pub(crate) nodes: Vec<Node>,
}

impl ThreeNodes {
    pub(crate) async fn start(failpoints: &str, arguments: &[&str]) -> Self {
        let armed = [failpoints, "", ""];
        Self::start_armed(armed, arguments).await
    }

    pub(crate) async fn start_armed(failpoints: [&str; 3], arguments: &[&str]) -> Self {
        let database = TestDatabase::create().await;
        let url = database.url();
        let arguments = [&["--check-in", "200ms"], arguments].concat();
        Self::start_at(database, [&url, &url, &url], failpoints, &arguments).await
    }

    /// One after the other, so that the ring has their order; each with its own URL of the database.
    pub(crate) async fn start_at(
        database: TestDatabase,
        urls: [&str; 3],
        failpoints: [&str; 3],
        arguments: &[&str],
    ) -> Self {
        let nodes: Vec<Node> = NAMES
            .iter()
            .zip(urls)
            .zip(failpoints)
            .map(|((name, url), failpoints)| {
                Node::start_at(url, name, arguments, &[("MAINSPRING_FAILPOINTS", failpoints)])
            })
            .collect();
        publish(nodes[1].http.as_ref().unwrap()).await;
        let client = database.connect().await;
        Self {
            database,
            client,
            nodes,
        }
    }

    pub(crate) async fn incarnation(&self, name: &str) -> Option<i64> {
        let query = "SELECT max(incarnation) FROM mainspring.node WHERE node_id = $1";
        self.client.query_one(query, &[&name]).await.unwrap().get(0)
    }

    /// Accepts starts through the first node, and their events through the second.
    pub(crate) async fn load(&self, count: usize) {
        for n in 0..count {
            let (first, second) = (self.nodes[0].http.clone(), self.nodes[1].http.clone());
            let start = json!({"input": {"n": n}});
            start_walk(n, &start, &mut || first.clone()).await;
            send_event(n, &mut || second.clone()).await;
        }
    }

    /// Waits until an incarnation has claimed so many rows.
    pub(crate) async fn holds(&self, incarnation: i64, rows: i64) {
        let query = format!("SELECT count(*) FROM mainspring.work WHERE claimed_by = {incarnation}");
        wait_until("the node to claim rows", async || {
            self.client.count(&query).await >= rows
        })
        .await;
    }

    /// Waits until an incarnation is removed without a trace.
    pub(crate) async fn wait_until_removed(&self, incarnation: i64) {
        let query = format!(
            "SELECT (SELECT count(*) FROM mainspring.node WHERE incarnation = {incarnation})
                  + (SELECT count(*) FROM mainspring.removed_node WHERE incarnation = {incarnation})
                  + (SELECT count(*) FROM mainspring.fence WHERE incarnation = {incarnation})
                  + (SELECT count(*) FROM mainspring.work WHERE claimed_by = {incarnation})
                  + (SELECT count(*) FROM mainspring.timer WHERE claimed_by = {incarnation})"
        );
        wait_until("an expired node to be removed", async || {
            self.client.count(&query).await == 0
        })
        .await;
    }

    /// The first node registers anew, ends what it has begun, and works as well as ever.
    pub(crate) async fn comes_back(&self, than: i64, count: i64) {
        poll_until(TIMEOUT, "the node to come back", async || {
            self.incarnation("one").await.filter(|back| *back > than)
        })
        .await;
        self.assert_clean_end(count).await;
        let first = self.nodes[0].http.clone();
        walk(99, &mut || first.clone()).await;
        self.assert_clean_end(count + 1).await;
    }

    pub(crate) async fn assert_clean_end(&self, count: i64) {
        wait_until_finished(&self.client, count).await;
        assert_each_exactly_once(&self.database, &self.client, count).await;
    }
}
