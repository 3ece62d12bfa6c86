//! `mainspring bench workflows`: workflows per second in each mode, and the cost of each.
//!
//! A workflow counts when its last commit is known, or, in modes whose response contains the outcome, at the response.

mod cost;
mod engines;
mod load;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use serde_json::{Value, json};

use self::cost::Meter;
use self::load::Outcome;
use super::nodes::{count_violations, with_schema};
use super::report::{Measured, describe_environment};
use crate::bench::settings::{BenchWorkflows, CommitAt, JournalSetting, Mode, name_of};
use crate::db::{Connector, DatabaseUrl, SchemaName};
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
    /// Instances that finished in engines of this process.
    counter: Arc<AtomicU64>,
}

impl Scenario {
    async fn meter(&self) -> Result<Meter, Failure> {
        let connector = Connector::new(&DatabaseUrl::parse(&self.url)?, &SchemaName::parse(&self.schema)?)?;
        Ok(Meter::new(connector.open().await?, self.mode == Mode::Http))
    }
}

pub(crate) async fn run(target: &Target, settings: &BenchWorkflows) -> Result<(), Failure> {
    if settings.instances.is_some() && matches!(settings.mode, Mode::Execute | Mode::Http) {
        return Err(Failure::usage("--instances does not apply to --mode execute or http"));
    }
    let environment = describe_environment(target.database_url()?).await?;
    let definition = definition(settings)?;
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
            counter: FinishedCounter::install()?,
        };
        let measured = load::run(&scenario, settings.seconds, settings.instances);
        let outcome = unless_stopped(stop, measured).await?;
        Ok((outcome, count_violations(scratch).await?))
    })
    .await?;
    report(settings, &environment, &outcome, violations)
}

/// The definition with its options.
fn definition(settings: &BenchWorkflows) -> Result<WorkflowDefinition, Failure> {
    let mut definition = match &settings.definition {
        Some(file) => {
            let failed = |error: &dyn std::fmt::Display| Failure::usage(format!("{}: {error}", file.display()));
            let bytes = std::fs::read(file).map_err(|error| failed(&error))?;
            WorkflowDefinition::from_json(&bytes).map_err(|error| failed(&error))?
        }
        None => WorkflowDefinition::from_value(built_in(settings.mode))?,
    };
    // A new definition id and version.
    definition.definition_id = crate::id::DefinitionId::new("bench");
    definition.id = crate::id::VersionId::new("");
    definition.version = 0;
    if settings.commit == CommitAt::Activity {
        let strategy = Value::from("ActivityExecuted");
        definition.options.insert("commitStrategyName".to_owned(), strategy);
    }
    if settings.journal == JournalSetting::Off {
        definition.options.insert("journal".to_owned(), "off".into());
    }
    Ok(definition)
}

fn built_in(mode: Mode) -> Value {
    let line = json!({"type": "Elsa.WriteLine", "id": "line", "text": "Hello from Mainspring!"});
    let root = match mode {
        Mode::Event => json!({"type": "Elsa.Sequence", "id": "steps", "activities": [
            {"type": "Elsa.Event", "id": "event", "eventName": "bench"}, line]}),
        _ => line,
    };
    json!({"definitionId": "bench", "root": root})
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
            "commit": name_of(settings.commit),
            "journal": name_of(settings.journal),
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
        (Mode::Execute | Mode::Http, _) => "from the call to the finished workflow",
        (Mode::Dispatch, None) => "from the call to its acceptance",
        (Mode::Dispatch, Some(_)) => "from the start of all nodes to the finished workflow",
        (Mode::Event, _) => "from the event to the finished workflow",
    }
}

/// A metrics recorder that counts finished instances only.
struct FinishedCounter(Arc<AtomicU64>);

impl FinishedCounter {
    /// Installs it, and returns the counter of instances that finish in engines of this process.
    fn install() -> Result<Arc<AtomicU64>, Failure> {
        let counter = Arc::new(AtomicU64::new(0));
        metrics::set_global_recorder(Self(Arc::clone(&counter)))
            .map_err(|_| Failure::failed("this process has another metrics recorder"))?;
        Ok(counter)
    }
}

impl Recorder for FinishedCounter {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        if key.name() == "mainspring_instances_finished_total" {
            return Counter::from_arc(Arc::clone(&self.0));
        }
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}
