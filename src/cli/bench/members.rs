//! Nodes for a benchmark, in a schema of its own, of which nothing is left.

use std::net::{Ipv4Addr, SocketAddr};

use crate::cli::client::Client;
use crate::cli::failure::Failure;
use crate::cli::ground::Ground;
use crate::cli::nodes::{self, Ear, Node, Output, Plan};
use crate::cli::settings::Common;
use crate::cli::stop;
use crate::runtime;

/// Does something with so many nodes, and gives what it gave, with how many invariants were broken when they had ended.
/// `lines` hears what workflows write; it must not wait. Not to be dropped half-way: the schema would be left.
pub(super) async fn with_nodes<T>(
    common: &Common,
    count: usize,
    lines: impl Fn(&str) + Send + Sync + 'static,
    measure: impl AsyncFnOnce(&Ground, &[Client]) -> Result<T, Failure>,
) -> Result<(T, usize), Failure> {
    let url = common.database_url()?;
    let stop = stop::on_signals()?;
    let ground = Ground::in_database(&url, "bench").await?;
    let ear: Ear = std::sync::Arc::new(move |name, output, line| match output {
        Output::Lines => lines(line),
        Output::Log => eprintln!("{name} | {line}"),
    });
    let plan = Plan {
        database_url: url,
        schema: ground.schema.clone(),
        // Where all goes well they have nothing to tell.
        log: if common.log == "info" { "warn" } else { &common.log }.to_owned(),
        arguments: Vec::new(),
        ear,
    };
    let mut members = Vec::new();
    let measured = tokio::select! {
        measured = async {
            start(&plan, count, &mut members).await?;
            let clients: Vec<Client> = members.iter().map(|node| Client::new(&node.url())).collect();
            measure(&ground, &clients).await
        } => measured,
        () = stop.cancelled() => Err(Failure::failed("stopped before the end")),
    };
    nodes::stop_all(&mut members).await;
    let judged = match measured {
        Ok(measured) => broken(&ground).await.map(|broken| (measured, broken)),
        Err(failure) => Err(failure),
    };
    let cleared = ground.clear().await;
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

pub(super) async fn broken(ground: &Ground) -> Result<usize, Failure> {
    let violations = runtime::check(&ground.url, &ground.schema).await?;
    for violation in &violations {
        eprintln!("error: {} is violated, {} times", violation.invariant, violation.count);
    }
    Ok(violations.len())
}
