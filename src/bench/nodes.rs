//! Child nodes for a benchmark, in a temporary schema.

use crate::harness::client::Client;
use crate::harness::failure::Failure;
use crate::harness::nodes::{self, ANY_PORT, LineHandler, Node, NodeOptions, Output};
use crate::harness::scratch::ScratchDatabase;
use crate::harness::settings::Target;
use crate::harness::stop::{self, Shutdown, unless_stopped};
use crate::runtime;

/// Runs `measure` with `count` nodes, as `with_different_nodes` does.
pub async fn with_nodes<T>(
    target: &Target,
    count: usize,
    lines: impl Fn(&str) + Send + Sync + 'static,
    measure: impl AsyncFnOnce(&ScratchDatabase, &[Client]) -> Result<T, Failure>,
) -> Result<(T, usize), Failure> {
    with_different_nodes(target, &vec![Vec::new(); count], lines, measure).await
}

/// Runs `measure` with a node for each list of arguments, and returns its result and the number of invariants violated after their exit.
/// `lines` receives the lines of workflows and must not block. Not cancellation safe: the schema would stay.
pub(super) async fn with_different_nodes<T>(
    target: &Target,
    arguments: &[Vec<String>],
    lines: impl Fn(&str) + Send + Sync + 'static,
    measure: impl AsyncFnOnce(&ScratchDatabase, &[Client]) -> Result<T, Failure>,
) -> Result<(T, usize), Failure> {
    let on_line: LineHandler = std::sync::Arc::new(move |name, output, line| match output {
        Output::Stdout => lines(line),
        Output::Stderr => eprintln!("{name} | {line}"),
    });
    with_schema(target, async |scratch, stop| {
        let mut options = node_options(target, scratch, on_line);
        let mut nodes = Vec::new();
        let measured = unless_stopped(stop, async {
            for (number, arguments) in arguments.iter().enumerate() {
                options.arguments.clone_from(arguments);
                nodes.push(Node::start(&options, &format!("node-{}", number + 1), ANY_PORT)?);
            }
            nodes::wait_until_ready(&mut nodes).await?;
            let clients: Vec<Client> = nodes.iter().map(|node| Client::new(&node.url())).collect();
            measure(scratch, &clients).await
        })
        .await;
        nodes::stop_all(&mut nodes).await;
        Ok((measured?, count_violations(scratch).await?))
    })
    .await
}

/// The options of child nodes in a temporary schema.
pub fn node_options(target: &Target, scratch: &ScratchDatabase, on_line: LineHandler) -> NodeOptions {
    NodeOptions {
        database_url: scratch.url.clone(),
        schema: scratch.schema.clone(),
        log: target.child_log("warn"),
        arguments: Vec::new(),
        variables: Vec::new(),
        on_line,
    }
}

/// Runs `measure` in a temporary schema, which is dropped afterwards; the token is cancelled by a signal. Not cancellation
/// safe: the schema would stay.
pub async fn with_schema<T>(
    target: &Target,
    measure: impl AsyncFnOnce(&ScratchDatabase, &Shutdown) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let stop = stop::on_signals()?;
    let scratch = ScratchDatabase::create_schema(target.database_url()?, "bench").await?;
    let measured = measure(&scratch, &stop).await;
    let removed = scratch.remove().await;
    let measured = measured?;
    removed.map(|()| measured)
}

/// Starts `count` nodes and waits until they are ready.
pub(super) async fn start_nodes(options: &NodeOptions, count: usize, nodes: &mut Vec<Node>) -> Result<(), Failure> {
    for number in 1..=count {
        nodes.push(Node::start(options, &format!("node-{number}"), ANY_PORT)?);
    }
    nodes::wait_until_ready(nodes).await
}

/// Checks the database and prints the violations; returns their number.
pub async fn count_violations(scratch: &ScratchDatabase) -> Result<usize, Failure> {
    let violations = runtime::check(&scratch.url, &scratch.schema).await?;
    for violation in &violations {
        eprintln!("error: {} is violated, {} times", violation.invariant, violation.count);
    }
    Ok(violations.len())
}
