//! `mainspring demo`: a failover in ten seconds. Three nodes, a workflow, kill -9 of the node that executes it, and another
//! node that finishes it. Exit code 0 confirms this; otherwise the error lists the differences.

mod scenario;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::settings::Common;
use crate::harness::client::{Client, text_field};
use crate::harness::failure::Failure;
use crate::harness::nodes::{self, ANY_PORT, Node, NodeOptions, Output};
use crate::harness::print_line;
use crate::harness::scratch::ScratchDatabase;
use crate::harness::stop::{self, Shutdown};
use crate::id::{InstanceId, TenantId};
use crate::runtime;
use crate::store::node::timer_holder;
use scenario::{ACTIVITIES, DemoLog, WORK_TIME, definition, journal_table, mismatches, next_steps};

/// The timeout of a step: longer than the check-in tolerance, the slowest detection of a crashed node.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How long after the start of the activity the node is killed.
const KILL_DELAY: Duration = Duration::from_millis(500);

pub(super) async fn run(common: &Common) -> Result<(), Failure> {
    let stop = stop::on_signals()?;
    let log = Arc::new(DemoLog::new());
    print_line("Three nodes on one PostgreSQL. One of them is killed while it executes an activity.\n");
    let mut scratch = match common.given_database_url() {
        Some(_) => {
            let scratch = ScratchDatabase::create_schema(&common.database_url()?, "demo").await?;
            log.print(&format!("created the schema {} in the given database", scratch.schema));
            scratch
        }
        None => {
            let folder = ScratchDatabase::temporary_folder().await;
            log.print(&format!("starting a private PostgreSQL in {} …", folder.display()));
            ScratchDatabase::start_private(&folder).await?
        }
    };
    let outcome = with_nodes(common, &mut scratch, &log, &stop).await;
    let removed = scratch.remove().await;
    outcome?;
    removed?;
    print_line(&next_steps());
    Ok(())
}

async fn with_nodes(
    common: &Common,
    scratch: &mut ScratchDatabase,
    log: &Arc<DemoLog>,
    stop: &Shutdown,
) -> Result<(), Failure> {
    let recorder = Arc::clone(log);
    let options = NodeOptions {
        database_url: scratch.url.clone(),
        schema: scratch.schema.clone(),
        // The info level would repeat the lines of the demo.
        log: if common.log == "info" { "error" } else { &common.log }.to_owned(),
        arguments: Vec::new(),
        variables: vec![(nodes::BENCH_ACTIVITIES, "true".to_owned())],
        on_line: Arc::new(move |name, output, line| match output {
            Output::Stdout => recorder.record(name, line),
            Output::Stderr => eprintln!("{name} | {line}"),
        }),
    };
    let (url, schema) = (scratch.url.clone(), scratch.schema.clone());
    let session = scratch.open().await?;
    log.print("the database is ready; starting three nodes …");
    let mut nodes = Vec::new();
    for number in 1..=3 {
        nodes.push(Node::start(&options, &format!("node-{number}"), ANY_PORT)?);
    }
    let outcome = tokio::select! {
        outcome = run_scenario(&mut nodes, &session.client, log) => outcome,
        failure = scratch.server_exited() => Err(failure),
        () = stop.requested() => Err(Failure::failed("stopped before the end")),
    };
    nodes::stop_all(&mut nodes).await;
    let outcome = outcome?;
    // All nodes have exited: no transaction is open.
    let mut failures = mismatches(&outcome.journal, &log.output_lines(), &outcome.killed_node);
    for violation in runtime::check(&url, &schema).await? {
        failures.push(format!(
            "{} is violated, {} times",
            violation.invariant, violation.count
        ));
    }
    if !failures.is_empty() {
        return Err(Failure::failed(format!("the demo has failed: {}", failures.join("; "))));
    }
    log.print("each step started and completed once, and every invariant of the database holds");
    print_line(&format!(
        "\nKilled while executing, taken over by another node {} ms later. Nothing is lost, nothing committed twice.",
        outcome.taken_over_after.as_millis()
    ));
    Ok(())
}

struct DemoOutcome {
    killed_node: String,
    taken_over_after: Duration,
    journal: Vec<Value>,
}

async fn run_scenario(
    nodes: &mut Vec<Node>,
    client: &tokio_postgres::Client,
    log: &DemoLog,
) -> Result<DemoOutcome, Failure> {
    for node in nodes.iter_mut() {
        node.ready().await?;
        log.print(&format!(
            "{} answers on {}, process {}",
            node.name,
            node.url(),
            node.pid()
        ));
    }
    let api = Client::new(&nodes.first().map(Node::url).unwrap_or_default());
    api.publish(&definition()).await?;
    log.print(&format!("published a workflow: {}", scenario::SUMMARY));
    let started = api.post("workflow-definitions/demo/dispatch", &json!({})).await?;
    let instance = InstanceId::new(text_field(&started, "workflowInstanceId"));
    log.print(&format!("started it: instance {instance}"));

    let tenant = TenantId::default();
    let holder = async || Ok(timer_holder(client, &tenant, &instance).await?);
    let killed_node = poll_until("a node claims the work", async || holder().await).await?;
    log.print(&format!(
        "the first delay is over, and {killed_node} executes the activity, for {} ms",
        WORK_TIME.as_millis()
    ));
    tokio::time::sleep(KILL_DELAY).await;
    if holder().await?.as_ref() != Some(&killed_node) {
        return Err(Failure::failed(format!(
            "{killed_node} had released the claim before it was killed"
        )));
    }
    let at = nodes.iter().position(|node| node.name == killed_node);
    let Some(at) = at else {
        return Err(Failure::failed(format!("{killed_node} is not a node of the demo")));
    };
    let killed_at = Instant::now();
    let mut killed = nodes.remove(at);
    killed.kill()?;
    log.print(&format!(
        "kill -9 {}: {killed_node}, while it executes the activity",
        killed.pid()
    ));
    let successor = poll_until("another node takes over the work", async || {
        Ok(holder().await?.filter(|successor| *successor != killed_node))
    })
    .await?;
    let taken_over_after = killed_at.elapsed();
    log.print(&format!(
        "{successor} has taken it over, {} ms after the kill, and executes the activity again",
        taken_over_after.as_millis()
    ));
    let status = killed.exited().await;
    killed.drain_output().await;
    if status.is_some_and(|status| status.success()) {
        return Err(Failure::failed(format!(
            "{killed_node} exited by itself: {}",
            nodes::describe_exit(status)
        )));
    }
    let api = Client::new(&nodes.first().map(Node::url).unwrap_or_default());
    let done = async || Ok(timer_holder(client, &tenant, &instance).await?.is_none().then_some(()));
    poll_until("the work is committed", done).await?;
    log.print("the activity is committed; the second delay starts");
    let path = format!("workflow-instances/{instance}");
    poll_until("the workflow finishes", async || {
        let found = api.get(&path).await?;
        Ok((text_field(&found, "status") == "Finished").then_some(()))
    })
    .await?;
    log.print("the workflow is finished; its journal:");
    let journal = api.get(&format!("{path}/journal?pageSize=1000")).await?;
    let journal = journal
        .get("items")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    for line in journal_table(&journal, &ACTIVITIES) {
        print_line(&line);
    }
    Ok(DemoOutcome {
        killed_node,
        taken_over_after,
        journal,
    })
}

/// Polls until there is a result; returns an error after a timeout.
async fn poll_until<T>(what: &str, mut poll: impl AsyncFnMut() -> Result<Option<T>, Failure>) -> Result<T, Failure> {
    let polling = async {
        loop {
            if let Some(answer) = poll().await? {
                return Ok(answer);
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    match tokio::time::timeout(TIMEOUT, polling).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Failure::failed(format!(
            "the demo has failed: not within {} s: {what}",
            TIMEOUT.as_secs()
        ))),
    }
}
