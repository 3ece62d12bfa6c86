//! Nodes for a benchmark, in a schema of its own, of which nothing is left.

use std::net::{Ipv4Addr, SocketAddr};

use crate::harness::client::Client;
use crate::harness::failure::Failure;
use crate::harness::nodes::{self, Ear, Node, Output, Plan};
use crate::harness::scratch::ScratchDatabase;
use crate::harness::stop;
use crate::harness::target::Target;
use crate::runtime;

/// Does something with so many nodes, and gives what it gave, with how many invariants were broken when they had ended.
/// `lines` hears what workflows write; it must not wait. Not to be dropped half-way: the schema would be left.
pub(super) async fn with_nodes<T>(
    target: &Target,
    count: usize,
    lines: impl Fn(&str) + Send + Sync + 'static,
    measure: impl AsyncFnOnce(&ScratchDatabase, &[Client]) -> Result<T, Failure>,
) -> Result<(T, usize), Failure> {
    let url = target.database_url()?.to_owned();
    let stop = stop::on_signals()?;
    let scratch = ScratchDatabase::in_database(&url, "bench").await?;
    let ear: Ear = std::sync::Arc::new(move |name, output, line| match output {
        Output::Lines => lines(line),
        Output::Log => eprintln!("{name} | {line}"),
    });
    let plan = Plan {
        database_url: url,
        schema: scratch.schema.clone(),
        // Where all goes well they have nothing to tell.
        log: target.child_log("warn"),
        arguments: Vec::new(),
        ear,
    };
    let mut members = Vec::new();
    let measured = tokio::select! {
        measured = async {
            start(&plan, count, &mut members).await?;
            let clients: Vec<Client> = members.iter().map(|node| Client::new(&node.url())).collect();
            measure(&scratch, &clients).await
        } => measured,
        () = stop.cancelled() => Err(Failure::failed("stopped before the end")),
    };
    nodes::stop_all(&mut members).await;
    let judged = match measured {
        Ok(measured) => broken(&scratch).await.map(|broken| (measured, broken)),
        Err(failure) => Err(failure),
    };
    let cleared = scratch.clear().await;
    let judged = judged?;
    cleared?;
    Ok(judged)
}

pub(super) async fn start(plan: &Plan, count: usize, members: &mut Vec<Node>) -> Result<(), Failure> {
    for number in 1..=count {
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        members.push(Node::start(plan, &format!("node-{number}"), any_port)?);
    }
    nodes::all_ready(members).await
}

pub(super) async fn broken(scratch: &ScratchDatabase) -> Result<usize, Failure> {
    let violations = runtime::check(&scratch.url, &scratch.schema).await?;
    for violation in &violations {
        eprintln!("error: {} is violated, {} times", violation.invariant, violation.count);
    }
    Ok(violations.len())
}
