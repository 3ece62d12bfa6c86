//! The three nodes of the benchmark, and the faults.

use std::time::{Duration, Instant};

use tokio_postgres::Client;

use super::blackhole::{self, BlackholeProxy};
use crate::bench::settings::{BenchFailover, NodeFault};
use crate::harness::failure::Failure;
use crate::harness::nodes::{self, ANY_PORT, Node, NodeOptions, log_only};
use crate::harness::settings::Target;
use crate::id::{Incarnation, NodeId};
use crate::store::node::by_node_id;

/// Two default check-in intervals: all nodes know each other, and each one is watched.
const SETTLE_TIME: Duration = Duration::from_secs(2);

/// The timeout until a node has rejoined after its fault.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(30);

/// A node, with a proxy to the database if its connections can be blocked.
pub(super) struct NodeProcess {
    pub(super) process: Node,
    pub(super) id: NodeId,
    proxy: Option<BlackholeProxy>,
}

pub(super) struct Cluster {
    options: NodeOptions,
    fault: NodeFault,
    pub(super) nodes: Vec<NodeProcess>,
    started: usize,
}

impl Cluster {
    pub(super) fn new(target: &Target, settings: &BenchFailover, url: &str, schema: &str) -> Self {
        // Each node has workers for the bursts of another node beside its own.
        let mut arguments = vec![
            "--workers".to_owned(),
            settings.bursts.saturating_mul(2).clamp(64, 100_000).to_string(),
        ];
        for (flag, value) in [("--check-in", settings.check_in), ("--tolerance", settings.tolerance)] {
            arguments.extend(
                value
                    .into_iter()
                    .flat_map(|time| [flag.to_owned(), format!("{}ms", time.as_millis())]),
            );
        }
        let redis_url = settings.redis_url.as_ref().map(|url| url.reveal().to_owned());
        let lock_dir = settings.lock_dir.as_ref().map(|folder| folder.display().to_string());
        for (flag, value) in [
            ("--lock-provider", Some(settings.lock_provider.clone())),
            ("--redis-url", redis_url),
            ("--lock-dir", lock_dir),
        ] {
            arguments.extend(value.into_iter().flat_map(|value| [flag.to_owned(), value]));
        }
        Self {
            options: NodeOptions {
                database_url: url.to_owned(),
                schema: schema.to_owned(),
                log: target.child_log("off"),
                arguments,
                variables: vec![(nodes::BENCH_ACTIVITIES, "true".to_owned())],
                on_line: log_only(),
            },
            fault: settings.fault,
            nodes: Vec::new(),
            started: 0,
        }
    }

    /// Starts missing nodes, and waits until all nodes know each other.
    pub(super) async fn complete(&mut self) -> Result<(), Failure> {
        while self.nodes.len() < 3 {
            self.started += 1;
            let name = format!("node-{}", self.started);
            let mut options = self.options.clone();
            let proxy = if self.fault == NodeFault::Cut {
                let target = blackhole::target(&options.database_url);
                let proxy = BlackholeProxy::to(target.ok_or_else(no_single_host)?).await?;
                options.database_url =
                    blackhole::reroute(&options.database_url, proxy.address()).ok_or_else(no_single_host)?;
                Some(proxy)
            } else {
                None
            };
            let process = Node::start(&options, &name, ANY_PORT)?;
            self.nodes.push(NodeProcess {
                process,
                id: NodeId::new(name),
                proxy,
            });
        }
        for node in &mut self.nodes {
            node.process.ready().await?;
        }
        tokio::time::sleep(SETTLE_TIME).await;
        Ok(())
    }

    /// Ends all faults, and shuts all nodes down.
    pub(super) async fn stop(&mut self) {
        for node in &self.nodes {
            if let Some(proxy) = &node.proxy {
                proxy.unblock();
            }
            // A stopped process cannot shut down.
            if self.fault == NodeFault::Stop {
                let _ = node.process.signal("CONT").await;
            }
        }
        let stops = self.nodes.iter_mut().map(|node| node.process.stop());
        futures_util::future::join_all(stops).await;
    }
}

fn no_single_host() -> Failure {
    Failure::usage("--fault cut needs a --database-url with one host: postgres://user@host:port/database")
}

impl NodeProcess {
    pub(super) async fn inject(&mut self, fault: NodeFault) -> Result<(), Failure> {
        match fault {
            NodeFault::Kill => self.process.kill(),
            NodeFault::Stop => self.process.signal("STOP").await,
            NodeFault::Cut => {
                if let Some(proxy) = &self.proxy {
                    proxy.block();
                }
                Ok(())
            }
        }
    }

    /// Ends the fault, and waits until the node has rejoined under a new incarnation. Returns false for a killed node.
    pub(super) async fn end_fault(
        &mut self,
        fault: NodeFault,
        client: &Client,
        old: &[Incarnation],
    ) -> Result<bool, Failure> {
        match fault {
            NodeFault::Kill => {
                let status = self.process.exited().await;
                if status.is_some_and(|status| status.success()) {
                    return Err(Failure::failed(format!(
                        "{} exited by itself: {}",
                        self.process.name,
                        nodes::describe_exit(status)
                    )));
                }
                return Ok(false);
            }
            NodeFault::Stop => self.process.signal("CONT").await?,
            NodeFault::Cut => {
                if let Some(proxy) = &self.proxy {
                    proxy.unblock();
                }
            }
        }
        let began = Instant::now();
        while began.elapsed() < RECOVERY_TIMEOUT {
            let now = by_node_id(client, &self.id).await?;
            if !now.is_empty() && now.iter().all(|incarnation| !old.contains(incarnation)) {
                return Ok(true);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Err(Failure::failed(format!("{} has not rejoined", self.process.name)))
    }
}
