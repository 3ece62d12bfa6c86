//! `mainspring dev --nodes N`: a local cluster, with a process per node that the user can kill.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;

use crate::cli::serve::{address_of, listen};
use crate::cli::settings::{Common, Dev, StudioChoice};
use crate::db::{Connector, DatabaseUrl, SchemaName};
use crate::harness::failure::Failure;
use crate::harness::nodes::{self, Node, NodeOptions, Output};
use crate::harness::print_line;
use crate::harness::stop::Shutdown;
use crate::id::NodeId;
use crate::store::node::by_node_id;

/// How long the removal of an expired or crashed node may take: the check-in tolerance is the worst case.
const TAKE_OVER_TIMEOUT: Duration = Duration::from_secs(20);

/// Binds an address for each node, with ascending ports, so that a port in use fails before the server starts.
pub(super) async fn addresses(settings: &Dev) -> Result<Vec<TcpListener>, Failure> {
    let mut listeners = Vec::new();
    for number in 0..settings.nodes {
        let mut address = settings.listen;
        if address.port() != 0 {
            let port = u16::try_from(number).ok().and_then(|n| address.port().checked_add(n));
            address.set_port(port.ok_or_else(|| {
                Failure::usage(format!(
                    "{} nodes from {} on need ports above 65535",
                    settings.nodes, settings.listen
                ))
            })?);
        }
        listeners.push(listen(address).await?);
    }
    Ok(listeners)
}

/// What `dev` has prepared.
pub(super) struct Started<'a> {
    pub(super) samples: &'a [String],
    pub(super) folder: &'a Path,
    pub(super) studio: &'a StudioChoice,
    /// The settings of mails, as variables of the environment.
    pub(super) mail: Vec<(&'static str, String)>,
}

/// Runs the nodes until `stop` is cancelled or no node is left.
pub(super) async fn run(
    common: &Common,
    url: &str,
    listeners: Vec<TcpListener>,
    started: &Started<'_>,
    stop: &Shutdown,
) -> Result<(), Failure> {
    let addresses: Vec<SocketAddr> = listeners.iter().map(address_of).collect::<Result<_, _>>()?;
    drop(listeners);
    let options = NodeOptions {
        database_url: url.to_owned(),
        schema: common.schema.clone(),
        log: common.log.clone(),
        arguments: started.studio.arguments(),
        variables: [started.studio.variables(), started.mail.clone()].concat(),
        on_line: Arc::new(|name, output, line| match output {
            Output::Stdout => print_line(&format!("{name} | {line}")),
            Output::Stderr => eprintln!("{name} | {line}"),
        }),
    };
    let mut nodes = Vec::new();
    for (number, address) in (1..).zip(addresses) {
        nodes.push(Node::start(&options, &format!("node-{number}"), address)?);
    }
    let outcome = tokio::select! {
        outcome = supervise(&options, &mut nodes, started) => outcome,
        () = stop.requested() => {
            stop.extend_limit(super::DRAIN + super::STOP_TIME).await;
            Ok(())
        }
    };
    if !nodes.is_empty() {
        eprintln!("stopping {} nodes …", nodes.len());
    }
    nodes::stop_all(&mut nodes).await;
    outcome
}

async fn supervise(options: &NodeOptions, nodes: &mut Vec<Node>, started: &Started<'_>) -> Result<(), Failure> {
    nodes::wait_until_ready(nodes).await?;
    for node in nodes.iter() {
        print_line(&format!(
            "{} answers on {}, process {}",
            node.name,
            node.url(),
            node.pid()
        ));
    }
    if let (Some(first), Some(last)) = (nodes.first(), nodes.last()) {
        print_line(&format!("ready {}", first.url()));
        print_line(&super::next_steps(&first.url(), started.samples, started.folder));
        print_line(&format!(
            "\nAny node runs what another one accepts. To see a take-over, kill one:\n\n  kill -9 {}",
            last.pid()
        ));
        print_line(&super::studio_address(&first.url(), started.studio.studio().as_ref()));
    }
    loop {
        let (mut exited, status) = nodes::first_exit(nodes).await;
        let exited_at = Instant::now();
        exited.drain_output().await;
        eprintln!(
            "{} has exited ({}); it is not restarted",
            exited.name,
            nodes::describe_exit(status)
        );
        if nodes.is_empty() {
            return Err(Failure::failed("no node is left"));
        }
        match wait_until_removed(options, &exited.name).await {
            Ok(true) => eprintln!(
                "{} was removed, and its work taken over, within {} ms",
                exited.name,
                exited_at.elapsed().as_millis()
            ),
            Ok(false) => eprintln!("no node has taken over from {} yet", exited.name),
            Err(error) => eprintln!("the take-over from {} cannot be checked: {error}", exited.name),
        }
    }
}

/// Waits until the node has no registration, which also frees its claims. Returns false after a timeout.
async fn wait_until_removed(options: &NodeOptions, name: &str) -> crate::Result<bool> {
    let connector = Connector::new(
        &DatabaseUrl::parse(&options.database_url)?,
        &SchemaName::parse(&options.schema)?,
    )?;
    let session = connector.open().await?;
    let (began, name) = (Instant::now(), NodeId::new(name));
    while began.elapsed() < TAKE_OVER_TIMEOUT {
        if by_node_id(&session.client, &name).await?.is_empty() {
            return Ok(true);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(false)
}
