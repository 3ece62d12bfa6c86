//! `mainspring bench workflows`: workflows per second in each mode, and the cost of each.
//!
//! A workflow counts when its last commit is known, or, in modes whose response contains the outcome, at the response.

mod cost;
mod engines;
mod modes;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use serde_json::json;

use self::cost::Meter;
use self::modes::Outcome;
use super::finished_counter::finished_instances;
use super::measured_workflow::{measured_workflow, name_of};
use super::nodes::{count_violations, with_schema};
use super::report::{Measured, describe_environment};
use crate::bench::queries;
use crate::bench::settings::{BenchWorkflows, Mode};
use crate::db::{Connector, DatabaseUrl, SchemaName, Session};
use crate::definition::WorkflowDefinition;
use crate::harness::failure::Failure;
use crate::harness::print_line;
use crate::harness::settings::Target;
use crate::harness::stop::unless_stopped;

/// The parameters of a measurement.
struct Scenario {
    url: String,
    schema: String,
    log: String,
    definition: WorkflowDefinition,
    mode: Mode,
    clients: usize,
    nodes: usize,
    workers: usize,
    pool_size: usize,
    held_snapshot: bool,
    /// Instances that finished in engines of this process.
    counter: Arc<AtomicU64>,
}

impl Scenario {
    async fn meter(&self) -> Result<Meter, Failure> {
        Ok(Meter::new(self.session().await?, self.mode.is_over_http()))
    }

    async fn session(&self) -> Result<Session, Failure> {
        let connector = Connector::new(&DatabaseUrl::parse(&self.url)?, &SchemaName::parse(&self.schema)?)?;
        Ok(connector.open().await?)
    }

    /// The session that holds a snapshot, if one is to be held, beside rows that are dead since.
    async fn held_snapshot(&self) -> Result<Option<Session>, Failure> {
        if !self.held_snapshot {
            return Ok(None);
        }
        let holder = self.session().await?;
        queries::hold_snapshot(&holder.client).await?;
        queries::leave_dead_rows(&self.session().await?.client).await?;
        Ok(Some(holder))
    }
}

pub(crate) async fn run(target: &Target, settings: &BenchWorkflows) -> Result<(), Failure> {
    if settings.instances.is_some() && matches!(settings.mode, Mode::Execute | Mode::Http | Mode::Endpoint) {
        return Err(Failure::usage(
            "--instances does not apply to --mode execute, http or endpoint",
        ));
    }
    let environment = describe_environment(target.database_url()?).await?;
    let definition = measured_workflow(settings.definition.as_deref(), settings.mode.first_activity())?;
    let definition = settings.options.apply(definition);
    let (outcome, violations) = with_schema(target, async |scratch, stop| {
        let scenario = Scenario {
            url: scratch.url.clone(),
            schema: scratch.schema.clone(),
            log: target.child_log("warn"),
            definition,
            mode: settings.mode,
            clients: settings.clients,
            nodes: settings.nodes,
            workers: settings.workers,
            pool_size: settings.pool_size,
            held_snapshot: settings.held_snapshot,
            counter: finished_instances()?,
        };
        let measured = modes::run(&scenario, settings.seconds, settings.instances);
        let outcome = unless_stopped(stop, measured).await?;
        Ok((outcome, count_violations(scratch).await?))
    })
    .await?;
    report(settings, &environment, &outcome, violations)
}

fn report(
    settings: &BenchWorkflows,
    environment: &[String],
    outcome: &Outcome,
    violations: usize,
) -> Result<(), Failure> {
    let cost = &outcome.cost;
    let each = |spent: f64| spent / (outcome.done.max(1) as f64);
    let tenths = |number: f64| (number * 10.0).round() / 10.0;
    let hundredths = |number: f64| (number * 100.0).round() / 100.0;
    let measured = Measured {
        clients: settings.clients,
        seconds: settings.seconds,
        per_second: outcome.done as f64 / outcome.took.as_secs_f64(),
        errors: outcome.errors + violations,
    };
    let lost = outcome.lost;
    let wal = each(cost.wal_bytes).round();
    let flushes = hundredths(each(cost.flushes));
    let engine = tenths(each(cost.engine.as_secs_f64() * 1e6));
    let server = cost.server.map(|busy| tenths(each(busy.as_secs_f64() * 1e6)));
    print_line(&format!(
        "{} clients, {} nodes, {}: {:.0} workflows/s",
        settings.clients,
        settings.nodes,
        name_of(settings.mode),
        measured.per_second
    ));
    environment.iter().for_each(|line| print_line(line));
    print_line(&format!(
        "{}: {}",
        latency_description(settings),
        outcome.latencies.in_text()
    ));
    let of_server = server.map_or_else(|| "?".to_owned(), |busy| busy.to_string());
    print_line(&format!(
        "each workflow: {wal} bytes of WAL, {flushes} flushes, {engine} µs of the engine's CPU, {of_server} µs of the \
         server's"
    ));
    print_line(&format!(
        "{} accepted, {lost} lost, {} errors",
        outcome.accepted, measured.errors
    ));
    if settings.json {
        let more = json!({
            "mode": name_of(settings.mode),
            "commit": name_of(settings.options.commit),
            "journal": name_of(settings.options.journal),
            "held_snapshot": settings.held_snapshot,
            "nodes": settings.nodes,
            "instances": outcome.accepted,
            "finished": outcome.done,
            "took_s": (outcome.took.as_secs_f64() * 1e3).round() / 1e3,
            "wal_bytes": wal,
            "flushes": flushes,
            "engine_cpu_us": engine,
            "server_cpu_us": server,
            "lost": lost,
        });
        print_line(&outcome.latencies.report("workflows", &measured, more).to_string());
    }
    if lost > 0 || measured.errors > 0 {
        return Err(Failure::reported());
    }
    if outcome.done == 0 {
        return Err(Failure::failed("no workflow was measured: increase --seconds"));
    }
    Ok(())
}

fn latency_description(settings: &BenchWorkflows) -> &'static str {
    match (settings.mode, settings.instances) {
        (Mode::Execute | Mode::Http | Mode::Endpoint, _) => "from the call to the finished workflow",
        (Mode::Dispatch, None) => "from the call to its acceptance",
        (Mode::Dispatch, Some(_)) => "from the start of all nodes to the finished workflow",
        (Mode::Event, _) => "from the event to the finished workflow",
    }
}
