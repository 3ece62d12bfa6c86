//! The three nodes of the benchmark, and what is done to them.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_postgres::Client;

use super::silence::{self, Silence};
use crate::bench::settings::{BenchFailover, Fault};
use crate::harness::failure::Failure;
use crate::harness::nodes::{self, Node, Output, Plan};
use crate::harness::target::Target;
use crate::id::{Incarnation, NodeId};
use crate::store::node::by_node_id;

/// Two check-ins at the default: who is there has got about, and everybody has a watcher.
const SETTLING: Duration = Duration::from_secs(2);

/// How long a node may take to come back after its fault is over.
const COMEBACK: Duration = Duration::from_secs(30);

/// A node, with its own way to the database where that may fall silent.
pub(super) struct Member {
    pub(super) node: Node,
    pub(super) id: NodeId,
    silence: Option<Silence>,
}

pub(super) struct Cluster {
    plan: Plan,
    fault: Fault,
    pub(super) members: Vec<Member>,
    started: usize,
}

impl Cluster {
    pub(super) fn new(target: &Target, settings: &BenchFailover, url: &str, schema: &str) -> Self {
        // Each node has room for all that another one leaves behind, and for what it does itself meanwhile; `serve` has
        // 64 unless told otherwise.
        let mut arguments = vec!["--bench-activities".to_owned()];
        arguments.extend([
            "--workers".to_owned(),
            settings.bursts.saturating_mul(2).clamp(64, 100_000).to_string(),
        ]);
        for (flag, value) in [("--check-in", settings.check_in), ("--tolerance", settings.tolerance)] {
            arguments.extend(
                value
                    .into_iter()
                    .flat_map(|time| [flag.to_owned(), format!("{}ms", time.as_millis())]),
            );
        }
        Self {
            plan: Plan {
                database_url: url.to_owned(),
                schema: schema.to_owned(),
                // What a node says of a fault is no news here.
                log: target.child_log("off"),
                arguments,
                ear: Arc::new(|name, output, line| {
                    if output == Output::Log {
                        eprintln!("{name} | {line}");
                    }
                }),
            },
            fault: settings.fault,
            members: Vec::new(),
            started: 0,
        }
    }

    /// Starts what is missing, and waits until everybody knows everybody.
    pub(super) async fn complete(&mut self) -> Result<(), Failure> {
        while self.members.len() < 3 {
            self.started += 1;
            let name = format!("node-{}", self.started);
            let mut plan = self.plan.clone();
            let silence = if self.fault == Fault::Cut {
                let target = silence::target(&plan.database_url);
                let silence = Silence::to(target.ok_or_else(no_way)?).await?;
                plan.database_url = silence::reroute(&plan.database_url, silence.address()).ok_or_else(no_way)?;
                Some(silence)
            } else {
                None
            };
            let node = Node::start(&plan, &name, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
            self.members.push(Member {
                node,
                id: NodeId::new(name),
                silence,
            });
        }
        for member in &mut self.members {
            member.node.ready().await?;
        }
        tokio::time::sleep(SETTLING).await;
        Ok(())
    }

    /// Ends all faults, and stops all nodes in good order.
    pub(super) async fn stop(&mut self) {
        for member in &self.members {
            if let Some(silence) = &member.silence {
                silence.speak();
            }
            // One that is stopped would not hear.
            if self.fault == Fault::Stop {
                let _ = member.node.signal("CONT").await;
            }
        }
        let stops = self.members.iter_mut().map(|member| member.node.stop());
        futures_util::future::join_all(stops).await;
    }
}

fn no_way() -> Failure {
    Failure::usage("--fault cut needs a --database-url with one host: postgres://user@host:port/database")
}

impl Member {
    /// Does it to the node.
    pub(super) async fn strike(&mut self, fault: Fault) -> Result<(), Failure> {
        match fault {
            Fault::Kill => self.node.kill(),
            Fault::Stop => self.node.signal("STOP").await,
            Fault::Cut => {
                if let Some(silence) = &self.silence {
                    silence.fall_silent();
                }
                Ok(())
            }
        }
    }

    /// Ends a fault that can be ended, and waits until the node is back under a new incarnation. A killed one is gone:
    /// false.
    pub(super) async fn recover(
        &mut self,
        fault: Fault,
        client: &Client,
        old: &[Incarnation],
    ) -> Result<bool, Failure> {
        match fault {
            Fault::Kill => {
                let status = self.node.ended().await;
                if status.is_some_and(|status| status.success()) {
                    return Err(Failure::failed(format!(
                        "{} ended by itself: {}",
                        self.node.name,
                        nodes::how(status)
                    )));
                }
                return Ok(false);
            }
            Fault::Stop => self.node.signal("CONT").await?,
            Fault::Cut => {
                if let Some(silence) = &self.silence {
                    silence.speak();
                }
            }
        }
        let began = Instant::now();
        while began.elapsed() < COMEBACK {
            let now = by_node_id(client, &self.id).await?;
            if !now.is_empty() && now.iter().all(|incarnation| !old.contains(incarnation)) {
                return Ok(true);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Err(Failure::failed(format!("{} has not come back", self.node.name)))
    }
}
