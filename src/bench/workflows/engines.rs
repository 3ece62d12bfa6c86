//! The engines that run the workflows of a measurement.

use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};

use super::Scenario;
use crate::activity::Console;
use crate::bench::nodes::start_nodes;
use crate::execution::InterpreterOptions;
use crate::harness::client::Client;
use crate::harness::failure::Failure;
use crate::harness::nodes::{self, Node, NodeOptions, log_only};
use crate::runtime::Engine;

/// Discards the lines of workflows: a terminal would be the bottleneck.
struct DiscardConsole;

impl Console for DiscardConsole {
    fn write_line(&self, _line: &str) {}
}

/// Engines in this process, or child nodes.
pub(super) enum EngineGroup {
    Engines(Vec<Engine>),
    Nodes { nodes: Vec<Node>, clients: Vec<Client> },
}

impl EngineGroup {
    pub(super) async fn engines(scenario: &Scenario, count: usize, workers: Option<usize>) -> Result<Self, Failure> {
        let started = (1..=count).map(|number| {
            let options = InterpreterOptions {
                console: Arc::new(DiscardConsole),
                ..InterpreterOptions::default()
            };
            let builder = Engine::builder(&scenario.url)
                .schema(&scenario.schema)
                .node_id(format!("node-{number}"))
                .workers(workers.unwrap_or(scenario.workers))
                .pool_size(scenario.pool_size)
                .interpreter(options);
            builder.start()
        });
        // Two at a time: the first engine should not drain a backlog before the last one starts, and a starting node needs
        // an extra connection.
        Ok(Self::Engines(stream::iter(started).buffered(2).try_collect().await?))
    }

    pub(super) async fn nodes(scenario: &Scenario, count: usize) -> Result<Self, Failure> {
        let options = NodeOptions {
            database_url: scenario.url.clone(),
            schema: scenario.schema.clone(),
            log: scenario.log.clone(),
            arguments: vec![
                format!("--workers={}", scenario.workers),
                format!("--pool-size={}", scenario.pool_size),
            ],
            variables: Vec::new(),
            on_line: log_only(),
        };
        let mut nodes = Vec::new();
        start_nodes(&options, count, &mut nodes).await?;
        let clients = nodes.iter().map(|node| Client::new(&node.url())).collect();
        Ok(Self::Nodes { nodes, clients })
    }

    pub(super) async fn publish(&self, scenario: &Scenario) -> Result<(), Failure> {
        match self {
            Self::Engines(engines) => {
                if let Some(engine) = engines.first() {
                    engine.save(scenario.definition.clone(), true).await?;
                }
            }
            Self::Nodes { clients, .. } => {
                if let Some(client) = clients.first() {
                    client.publish(&scenario.definition.to_value()).await?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn all_engines(&self) -> &[Engine] {
        match self {
            Self::Engines(engines) => engines,
            Self::Nodes { .. } => &[],
        }
    }

    pub(super) fn all_clients(&self) -> &[Client] {
        match self {
            Self::Engines(_) => &[],
            Self::Nodes { clients, .. } => clients,
        }
    }

    pub(super) async fn end(self) {
        match self {
            Self::Engines(engines) => {
                futures_util::future::join_all(engines.iter().map(Engine::shutdown)).await;
            }
            Self::Nodes { mut nodes, .. } => nodes::stop_all(&mut nodes).await,
        }
    }
}
