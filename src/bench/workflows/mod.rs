//! `mainspring bench workflows`: workflows per second in each mode, and the cost of each.
//!
//! A workflow counts when its last commit is known, or, in the modes whose response contains the outcome, at the response.
//! Statements and round trips are counted in a second, short run on the same schema, through a proxy; no times are measured
//! there.

pub(super) mod churn;
mod composed;
mod cost;
mod counting_proxy;
mod engines;
mod hostile;
mod load;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use serde_json::{Value, json};

use self::cost::Meter;
use self::counting_proxy::{CountingProxy, MessageCounts};
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

/// The size of the run that counts statements: seconds, and instances.
const SAMPLE: (usize, usize) = (2, 2_000);

/// The parameters of a measurement.
struct Scenario {
    url: String,
    schema: String,
    log: String,
    definition: WorkflowDefinition,
    /// Published before it.
    parts: Vec<WorkflowDefinition>,
    mode: Mode,
    clients: usize,
    nodes: usize,
    workers: usize,
    pool_size: usize,
    /// That of scripts; none: the default.
    script_time_limit: Option<Duration>,
    /// Instances that finished in engines of this process.
    counter: Arc<AtomicU64>,
    counts: Option<Arc<MessageCounts>>,
}

impl Scenario {
    async fn meter(&self) -> Result<Meter, Failure> {
        let connector = Connector::new(&DatabaseUrl::parse(&self.url)?, &SchemaName::parse(&self.schema)?)?;
        Ok(Meter::new(
            connector.open().await?,
            self.counts.clone(),
            self.mode == Mode::Http,
        ))
    }
}

pub(crate) async fn run(target: &Target, settings: &BenchWorkflows) -> Result<(), Failure> {
    if settings.instances.is_some() && matches!(settings.mode, Mode::Execute | Mode::Http | Mode::Hostile) {
        return Err(Failure::usage(
            "--instances is not for --mode execute, http and hostile",
        ));
    }
    if settings.definition.is_some() && settings.mode.is_composed() {
        return Err(Failure::usage(
            "--definition is for --mode execute, dispatch, http and event",
        ));
    }
    let environment = describe_environment(target.database_url()?).await?;
    let definition = definition(settings)?;
    let (measured, violations) = with_schema(target, async |scratch, stop| {
        let scenario = Scenario {
            url: scratch.url.clone(),
            schema: scratch.schema.clone(),
            log: target.child_log("warn"),
            definition,
            parts: Vec::new(),
            mode: settings.mode,
            clients: settings.clients,
            nodes: settings.nodes,
            workers: settings.workers,
            pool_size: settings.pool_size,
            script_time_limit: None,
            counter: FinishedCounter::install()?,
            counts: None,
        };
        let measured = if settings.mode.is_composed() {
            Kind::Composed(unless_stopped(stop, composed::measure(scenario, settings)).await?)
        } else {
            let (outcome, sample) = unless_stopped(stop, measure(scenario, settings)).await?;
            Kind::Plain(Box::new(outcome), sample.map(Box::new))
        };
        Ok((measured, count_violations(scratch).await?))
    })
    .await?;
    match &measured {
        Kind::Plain(outcome, sample) => report(settings, &environment, outcome, sample.as_deref(), violations),
        Kind::Composed(measured) => composed::report(settings, &environment, measured, violations),
    }
}

/// What a mode measures: one workflow, or what is made of several.
enum Kind {
    Plain(Box<Outcome>, Option<Box<Outcome>>),
    Composed(composed::Composed),
}

async fn measure(mut scenario: Scenario, settings: &BenchWorkflows) -> Result<(Outcome, Option<Outcome>), Failure> {
    let outcome = load::run(&scenario, settings.seconds, settings.instances).await?;
    let Some(proxy) = CountingProxy::open(&scenario.url).await? else {
        return Ok((outcome, None));
    };
    eprintln!("counting statements");
    scenario.url.clone_from(&proxy.url);
    scenario.counts = Some(Arc::clone(&proxy.counts));
    let instances = match settings.mode {
        Mode::Event => Some(settings.instances.unwrap_or(SAMPLE.1).min(SAMPLE.1)),
        _ => settings.instances.map(|instances| instances.min(SAMPLE.1)),
    };
    let sample = load::run(&scenario, SAMPLE.0, instances).await?;
    Ok((outcome, Some(sample)))
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
    with_options(definition, settings)
}

/// The definition with the options that the settings ask for.
fn with_options(mut definition: WorkflowDefinition, settings: &BenchWorkflows) -> Result<WorkflowDefinition, Failure> {
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
    sample: Option<&Outcome>,
    violations: usize,
) -> Result<(), Failure> {
    let cost = &outcome.cost;
    let each = |spent: f64, of: &Outcome| spent / (of.done.max(1) as f64);
    let tenths = |number: f64| (number * 10.0).round() / 10.0;
    let hundredths = |number: f64| (number * 100.0).round() / 100.0;
    let measured = Measured {
        clients: settings.clients,
        seconds: settings.seconds,
        per_second: outcome.done as f64 / outcome.took.as_secs_f64(),
        errors: outcome.errors + violations + sample.map_or(0, |sample| sample.errors),
    };
    let lost = outcome.lost + sample.map_or(0, |sample| sample.lost);
    let wal = each(cost.wal_bytes, outcome).round();
    let flushes = hundredths(each(cost.flushes, outcome));
    let engine = tenths(each(cost.engine.as_secs_f64() * 1e6, outcome));
    let server = cost.server.map(|busy| tenths(each(busy.as_secs_f64() * 1e6, outcome)));
    let statements = sample.map(|sample| hundredths(each(sample.cost.statements, sample)));
    let trips = sample.map(|sample| hundredths(each(sample.cost.round_trips, sample)));
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
    let or_unknown = |figure: Option<f64>| figure.map_or_else(|| "?".to_owned(), |figure| figure.to_string());
    print_line(&format!(
        "each workflow: {} statements, {} round trips, {wal} bytes of WAL, {flushes} flushes, {engine} µs of the engine's \
         CPU, {} µs of the server's",
        or_unknown(statements),
        or_unknown(trips),
        or_unknown(server),
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
            "statements": statements,
            "round_trips": trips,
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
        _ => "from the start of the parent to its end",
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
