//! Child nodes for a benchmark, in a temporary schema.

use std::net::{Ipv4Addr, SocketAddr};

use crate::harness::client::Client;
use crate::harness::failure::Failure;
use crate::harness::nodes::{self, LineHandler, Node, NodeOptions, Output};
use crate::harness::scratch::ScratchDatabase;
use crate::harness::settings::Target;
use crate::harness::stop;
use crate::runtime;

/// Runs `measure` with `count` nodes, and returns its result and the number of invariants violated after their exit.
/// `lines` receives the lines of workflows and must not block. Not cancellation safe: the schema would stay.
pub(super) async fn with_nodes<T>(
    target: &Target,
    count: usize,
    lines: impl Fn(&str) + Send + Sync + 'static,
    measure: impl AsyncFnOnce(&ScratchDatabase, &[Client]) -> Result<T, Failure>,
) -> Result<(T, usize), Failure> {
    let url = target.database_url()?.to_owned();
    let stop = stop::on_signals()?;
    let scratch = ScratchDatabase::create_schema(&url, "bench").await?;
    let on_line: LineHandler = std::sync::Arc::new(move |name, output, line| match output {
        Output::Stdout => lines(line),
        Output::Stderr => eprintln!("{name} | {line}"),
    });
    let options = NodeOptions {
        database_url: url,
        schema: scratch.schema.clone(),
        log: target.child_log("warn"),
        arguments: Vec::new(),
        on_line,
    };
    let mut nodes = Vec::new();
    let measured = tokio::select! {
        measured = async {
            start_nodes(&options, count, &mut nodes).await?;
            let clients: Vec<Client> = nodes.iter().map(|node| Client::new(&node.url())).collect();
            measure(&scratch, &clients).await
        } => measured,
        () = stop.cancelled() => Err(Failure::failed("stopped before the end")),
    };
    nodes::stop_all(&mut nodes).await;
    let checked = match measured {
        Ok(measured) => count_violations(&scratch)
            .await
            .map(|violations| (measured, violations)),
        Err(failure) => Err(failure),
    };
    let removed = scratch.remove().await;
    let checked = checked?;
    removed?;
    Ok(checked)
}

/// Starts `count` nodes and waits until they are ready.
pub(super) async fn start_nodes(options: &NodeOptions, count: usize, nodes: &mut Vec<Node>) -> Result<(), Failure> {
    for number in 1..=count {
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        nodes.push(Node::start(options, &format!("node-{number}"), any_port)?);
    }
    nodes::wait_until_ready(nodes).await
}

/// Checks the database and prints the violations; returns their number.
pub(super) async fn count_violations(scratch: &ScratchDatabase) -> Result<usize, Failure> {
    let violations = runtime::check(&scratch.url, &scratch.schema).await?;
    for violation in &violations {
        eprintln!("error: {} is violated, {} times", violation.invariant, violation.count);
    }
    Ok(violations.len())
}
