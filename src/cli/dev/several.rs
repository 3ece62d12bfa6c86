//! `mainspring dev --nodes N`: a cluster to play with, each node a process of its own that can be killed.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::cli::serve::{address_of, listen};
use crate::cli::settings::{Common, Dev};
use crate::db::{Connector, DatabaseUrl, SchemaName};
use crate::harness::failure::Failure;
use crate::harness::nodes::{self, Node, Output, Plan};
use crate::harness::say;
use crate::id::NodeId;
use crate::store::node::by_node_id;

/// How long the others may take to see a node off; the check-in tolerance is the worst case.
const TAKE_OVER_PATIENCE: Duration = Duration::from_secs(20);

/// Takes an address for each node, ports counting up, so that a taken one is told before anything is started.
pub(super) async fn addresses(settings: &Dev) -> Result<Vec<TcpListener>, Failure> {
    let mut listeners = Vec::new();
    for number in 0..settings.nodes {
        let mut address = settings.listen;
        if address.port() != 0 {
            let port = u16::try_from(number).ok().and_then(|n| address.port().checked_add(n));
            address.set_port(port.ok_or_else(|| {
                Failure::usage(format!(
                    "{} nodes from {} on need ports past 65535",
                    settings.nodes, settings.listen
                ))
            })?);
        }
        listeners.push(listen(address).await?);
    }
    Ok(listeners)
}

/// Runs the nodes until asked to stop, or until none is left.
pub(super) async fn run(
    common: &Common,
    url: &str,
    listeners: Vec<TcpListener>,
    samples: &[String],
    folder: &Path,
    stop: &CancellationToken,
) -> Result<(), Failure> {
    let addresses: Vec<SocketAddr> = listeners.iter().map(address_of).collect::<Result<_, _>>()?;
    drop(listeners);
    let plan = Plan {
        database_url: url.to_owned(),
        schema: common.schema.clone(),
        log: common.log.clone(),
        arguments: Vec::new(),
        ear: Arc::new(|name, output, line| match output {
            Output::Lines => say(&format!("{name} | {line}")),
            Output::Log => eprintln!("{name} | {line}"),
        }),
    };
    let mut nodes = Vec::new();
    for (number, address) in (1..).zip(addresses) {
        nodes.push(Node::start(&plan, &format!("node-{number}"), address)?);
    }
    let outcome = tokio::select! {
        outcome = watch_over(&plan, &mut nodes, samples, folder) => outcome,
        () = stop.cancelled() => Ok(()),
    };
    if !nodes.is_empty() {
        eprintln!("stopping {} nodes …", nodes.len());
    }
    nodes::stop_all(&mut nodes).await;
    outcome
}

async fn watch_over(plan: &Plan, nodes: &mut Vec<Node>, samples: &[String], folder: &Path) -> Result<(), Failure> {
    nodes::all_ready(nodes).await?;
    for node in nodes.iter() {
        say(&format!(
            "{} answers on {}, process {}",
            node.name,
            node.url(),
            node.pid()
        ));
    }
    if let (Some(first), Some(last)) = (nodes.first(), nodes.last()) {
        say(&format!("ready {}", first.url()));
        say(&super::what_next(&first.url(), samples, folder));
        say(&format!(
            "\nWhat one node accepts, any of them runs. To see one go and the others take over:\n\n  kill -9 {}",
            last.pid()
        ));
    }
    loop {
        let (mut gone, status) = nodes::first_to_end(nodes).await;
        let ended = Instant::now();
        gone.finish_reading().await;
        eprintln!(
            "{} has ended ({}); it is not started again",
            gone.name,
            nodes::how(status)
        );
        if nodes.is_empty() {
            return Err(Failure::failed("no node is left"));
        }
        match until_seen_off(plan, &gone.name).await {
            Ok(true) => eprintln!(
                "{} was seen off, and its work taken over, within {} ms",
                gone.name,
                ended.elapsed().as_millis()
            ),
            Ok(false) => eprintln!("nobody has taken over from {} yet", gone.name),
            Err(error) => eprintln!("whether somebody took over from {} cannot be seen: {error}", gone.name),
        }
    }
}

/// Waits until no registration of a node is left: its claims are free then. False if that takes too long.
async fn until_seen_off(plan: &Plan, name: &str) -> crate::Result<bool> {
    let connector = Connector::new(
        &DatabaseUrl::parse(&plan.database_url)?,
        &SchemaName::parse(&plan.schema)?,
    )?;
    let session = connector.open().await?;
    let (began, name) = (Instant::now(), NodeId::new(name));
    while began.elapsed() < TAKE_OVER_PATIENCE {
        if by_node_id(&session.client, &name).await?.is_empty() {
            return Ok(true);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(false)
}
