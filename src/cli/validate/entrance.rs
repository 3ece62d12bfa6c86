//! Where the requests of clients come in: the load balancer, or without one each node that is ready, in turn.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hyper::Method;
use serde_json::Value;

use super::node_api::{ApiAnswer, NodeApi};
use super::target_cluster::{PAUSE, TargetCluster};

/// How long a client waits for a node that is ready, before its request has failed.
const READY_WITHIN: Duration = Duration::from_secs(10);

/// The entrance of a cluster.
pub(super) struct Entrance<'a> {
    ways: Vec<&'a NodeApi>,
    turn: AtomicUsize,
    /// A load balancer chooses the node.
    is_balanced: bool,
}

impl<'a> Entrance<'a> {
    pub(super) fn of(cluster: &'a TargetCluster) -> Self {
        let nodes = || cluster.nodes.iter().map(|node| &node.api).collect();
        Self {
            ways: cluster.through.as_ref().map_or_else(nodes, |through| vec![through]),
            turn: AtomicUsize::new(0),
            is_balanced: cluster.through.is_some(),
        }
    }

    /// Sends one request, once. Errors: no answer, or none of success.
    pub(super) async fn post(&self, path: &str, key: &str, body: &Value) -> Result<ApiAnswer, String> {
        let began = Instant::now();
        loop {
            let way = self.next().await?;
            match way.send(Method::POST, path, Some(key), Some(body)).await {
                Ok(answer) if answer.is_success() => return Ok(answer),
                Ok(answer) => return Err(format!("{path} at {}: {}", way.url(), answer.refusal())),
                // A node that has ended meanwhile has not got the request: a load balancer sends it to the next one.
                Err(lost) if !lost.was_sent && !self.is_balanced && began.elapsed() < READY_WITHIN => {
                    tokio::time::sleep(PAUSE).await;
                }
                Err(lost) => return Err(format!("{path} at {}", lost.problem)),
            }
        }
    }

    async fn next(&self) -> Result<&'a NodeApi, String> {
        let began = Instant::now();
        while began.elapsed() < READY_WITHIN {
            for _ in 0..self.ways.len() {
                let at = self.turn.fetch_add(1, Relaxed) % self.ways.len();
                let Some(way) = self.ways.get(at) else { continue };
                if self.is_balanced || way.is_ready().await {
                    return Ok(way);
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(format!("no node was ready within {} s", READY_WITHIN.as_secs()))
    }
}
