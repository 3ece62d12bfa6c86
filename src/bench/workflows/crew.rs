//! Who runs the workflows of a measurement.

use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::json;

use super::Field;
use crate::activity::Console;
use crate::bench::members;
use crate::execution::InterpreterOptions;
use crate::harness::client::Client;
use crate::harness::failure::Failure;
use crate::harness::nodes::{self, Node, Output, Plan};
use crate::runtime::Engine;

/// Swallows what workflows write: a terminal is slower than all else here.
struct Silence;

impl Console for Silence {
    fn write_line(&self, _line: &str) {}
}

/// Engines in this process, or nodes of their own.
pub(super) enum Crew {
    Engines(Vec<Engine>),
    Nodes { nodes: Vec<Node>, clients: Vec<Client> },
}

impl Crew {
    /// Engines in this process.
    pub(super) async fn engines(field: &Field, count: usize, workers: Option<usize>) -> Result<Self, Failure> {
        let started = (1..=count).map(|number| {
            let console = InterpreterOptions {
                console: Arc::new(Silence),
                ..InterpreterOptions::default()
            };
            let builder = Engine::builder(&field.url)
                .schema(&field.schema)
                .node_id(format!("node-{number}"))
                .workers(workers.unwrap_or(field.workers))
                .pool_size(field.pool_size)
                .interpreter(console);
            builder.start()
        });
        // Side by side: of a backlog the first would else work off a part before the last is there. While a node starts it
        // has a connection more than later, and sixteen have nearly all that a server allows.
        Ok(Self::Engines(stream::iter(started).buffered(2).try_collect().await?))
    }

    /// Nodes of their own, ready.
    pub(super) async fn nodes(field: &Field, count: usize) -> Result<Self, Failure> {
        let plan = Plan {
            database_url: field.url.clone(),
            schema: field.schema.clone(),
            log: field.log.clone(),
            arguments: vec![
                format!("--workers={}", field.workers),
                format!("--pool-size={}", field.pool_size),
            ],
            ear: Arc::new(|name, output, line| {
                if output == Output::Log {
                    eprintln!("{name} | {line}");
                }
            }),
        };
        let mut nodes = Vec::new();
        members::start(&plan, count, &mut nodes).await?;
        let clients = nodes.iter().map(|node| Client::new(&node.url())).collect();
        Ok(Self::Nodes { nodes, clients })
    }

    /// Makes the definition the one that runs.
    pub(super) async fn publish(&self, field: &Field) -> Result<(), Failure> {
        match self {
            Self::Engines(engines) => {
                if let Some(engine) = engines.first() {
                    engine.save(field.definition.clone(), true).await?;
                }
            }
            Self::Nodes { clients, .. } => {
                if let Some(client) = clients.first() {
                    let save = json!({"model": field.definition.to_value(), "publish": true});
                    client.post("workflow-definitions", &save).await?;
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

    /// Ends all of them in good order.
    pub(super) async fn end(self) {
        match self {
            Self::Engines(engines) => {
                futures_util::future::join_all(engines.iter().map(Engine::shutdown)).await;
            }
            Self::Nodes { mut nodes, .. } => nodes::stop_all(&mut nodes).await,
        }
    }
}
