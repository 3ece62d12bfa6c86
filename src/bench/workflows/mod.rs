//! `mainspring bench workflows`: workflows per second by each door, and what each costs.
//!
//! A workflow counts when the commit with which it finished is known, or, by the doors that answer with the outcome, when
//! they have answered so. What engines say to the server is counted in a second, short run on the same schema, through a
//! door that reads along; times are never taken there.

mod cost;
mod crew;
mod drive;
mod tap;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use serde_json::{Value, json};

use self::cost::Meter;
use self::drive::Outcome;
use self::tap::{Tap, Words};
use super::figures::Measured;
use super::{members, surroundings};
use crate::bench::settings::{BenchWorkflows, CommitAt, JournalLevel, Mode};
use crate::db::{Connector, DatabaseUrl, SchemaName};
use crate::definition::WorkflowDefinition;
use crate::harness::failure::Failure;
use crate::harness::scratch::ScratchDatabase;
use crate::harness::target::Target;
use crate::harness::{say, stop};

/// How long, and how many instances, are enough to count words.
const SAMPLE: (usize, usize) = (2, 2_000);

/// What a measurement needs.
struct Field {
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
    words: Option<Arc<Words>>,
}

impl Field {
    async fn meter(&self) -> Result<Meter, Failure> {
        let connector = Connector::new(&DatabaseUrl::parse(&self.url)?, &SchemaName::parse(&self.schema)?)?;
        Ok(Meter::new(
            connector.open().await?,
            self.words.clone(),
            self.mode == Mode::Http,
        ))
    }
}

pub(crate) async fn run(target: &Target, settings: &BenchWorkflows) -> Result<(), Failure> {
    if settings.instances.is_some() && !matches!(settings.mode, Mode::Dispatch | Mode::Event) {
        return Err(Failure::usage("--instances is for --mode dispatch and event"));
    }
    let url = target.database_url()?.to_owned();
    let [machine, server] = surroundings::describe(&url).await?;
    let definition = definition(settings)?;
    let stop = stop::on_signals()?;
    let scratch = ScratchDatabase::in_database(&url, "bench").await?;
    let field = Field {
        url,
        schema: scratch.schema.clone(),
        log: target.child_log("warn"),
        definition,
        mode: settings.mode,
        clients: settings.clients,
        nodes: settings.nodes,
        workers: settings.workers,
        pool_size: settings.pool_size,
        counter: Ends::counted()?,
        words: None,
    };
    let measured = tokio::select! {
        measured = measure(field, settings) => measured,
        () = stop.cancelled() => Err(Failure::failed("stopped before the end")),
    };
    let judged = match measured {
        Ok(measured) => members::broken(&scratch).await.map(|broken| (measured, broken)),
        Err(failure) => Err(failure),
    };
    let cleared = scratch.clear().await;
    let ((outcome, sample), broken) = judged?;
    cleared?;
    report(settings, &[machine, server], &outcome, sample.as_ref(), broken)
}

async fn measure(mut field: Field, settings: &BenchWorkflows) -> Result<(Outcome, Option<Outcome>), Failure> {
    let outcome = drive::play(&field, settings.seconds, settings.instances).await?;
    let Some(tap) = Tap::open(&field.url).await? else {
        return Ok((outcome, None));
    };
    eprintln!("counting statements");
    field.url.clone_from(&tap.url);
    field.words = Some(Arc::clone(&tap.words));
    let instances = match settings.mode {
        Mode::Event => Some(settings.instances.unwrap_or(SAMPLE.1).min(SAMPLE.1)),
        _ => settings.instances.map(|instances| instances.min(SAMPLE.1)),
    };
    let sample = drive::play(&field, SAMPLE.0, instances).await?;
    Ok((outcome, Some(sample)))
}

/// The definition as it shall run.
fn definition(settings: &BenchWorkflows) -> Result<WorkflowDefinition, Failure> {
    let mut definition = match &settings.definition {
        Some(file) => {
            let told = |error: &dyn std::fmt::Display| Failure::usage(format!("{}: {error}", file.display()));
            let bytes = std::fs::read(file).map_err(|error| told(&error))?;
            WorkflowDefinition::from_json(&bytes).map_err(|error| told(&error))?
        }
        None => WorkflowDefinition::from_value(built_in(settings.mode))?,
    };
    // An id of its own, and a version of ours.
    definition.definition_id = crate::id::DefinitionId::new("bench");
    definition.id = crate::id::VersionId::new("");
    definition.version = 0;
    if settings.commit == CommitAt::Activity {
        let strategy = Value::from("ActivityExecuted");
        definition.options.insert("commitStrategyName".to_owned(), strategy);
    }
    if settings.journal == JournalLevel::Off {
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
    surroundings: &[String],
    outcome: &Outcome,
    sample: Option<&Outcome>,
    broken: usize,
) -> Result<(), Failure> {
    let cost = &outcome.cost;
    let each = |spent: f64, of: &Outcome| spent / (of.done.max(1) as f64);
    let tenths = |number: f64| (number * 10.0).round() / 10.0;
    let hundredths = |number: f64| (number * 100.0).round() / 100.0;
    let measured = Measured {
        clients: settings.clients,
        seconds: settings.seconds,
        per_second: outcome.done as f64 / outcome.took.as_secs_f64(),
        errors: outcome.errors + broken + sample.map_or(0, |sample| sample.errors),
    };
    let lost = outcome.lost + sample.map_or(0, |sample| sample.lost);
    let wal = each(cost.wal_bytes, outcome).round();
    let flushes = hundredths(each(cost.flushes, outcome));
    let engine = tenths(each(cost.engine.as_secs_f64() * 1e6, outcome));
    let server = cost.server.map(|busy| tenths(each(busy.as_secs_f64() * 1e6, outcome)));
    let statements = sample.map(|sample| hundredths(each(sample.cost.statements, sample)));
    let trips = sample.map(|sample| hundredths(each(sample.cost.round_trips, sample)));
    say(&format!(
        "{} clients, {} nodes, {}: {:.0} workflows/s",
        settings.clients,
        settings.nodes,
        settings.mode.word(),
        measured.per_second
    ));
    surroundings.iter().for_each(|line| say(line));
    say(&format!("{}: {}", meaning(settings), outcome.latencies.told()));
    let or_unknown = |figure: Option<f64>| figure.map_or_else(|| "?".to_owned(), |figure| figure.to_string());
    say(&format!(
        "each workflow: {} statements, {} round trips, {wal} bytes of WAL, {flushes} flushes, {engine} µs of the engine's \
         CPU, {} µs of the server's",
        or_unknown(statements),
        or_unknown(trips),
        or_unknown(server),
    ));
    say(&format!(
        "{} accepted, {lost} lost, {} errors",
        outcome.accepted, measured.errors
    ));
    if settings.json {
        let more = json!({
            "mode": settings.mode.word(),
            "commit": match settings.commit { CommitAt::Burst => "burst", CommitAt::Activity => "activity" },
            "journal": match settings.journal { JournalLevel::Full => "full", JournalLevel::Off => "off" },
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
        say(&outcome.latencies.report("workflows", &measured, more).to_string());
    }
    if lost > 0 || measured.errors > 0 {
        return Err(Failure::found());
    }
    if outcome.done == 0 {
        return Err(Failure::failed("no workflow was measured: give --seconds more time"));
    }
    Ok(())
}

fn meaning(settings: &BenchWorkflows) -> &'static str {
    match (settings.mode, settings.instances) {
        (Mode::Execute | Mode::Http, _) => "asked until answered that it has finished",
        (Mode::Dispatch, None) => "asked until answered that it is accepted",
        (Mode::Dispatch, Some(_)) => "all nodes told to start until it had finished",
        (Mode::Event, _) => "event sent until it had finished",
    }
}

/// Hears of nothing but instances that finish.
struct Ends(Arc<AtomicU64>);

impl Ends {
    /// What counts the instances that finish in engines of this process, from now on.
    fn counted() -> Result<Arc<AtomicU64>, Failure> {
        let counter = Arc::new(AtomicU64::new(0));
        metrics::set_global_recorder(Self(Arc::clone(&counter)))
            .map_err(|_| Failure::failed("somebody else counts in this process"))?;
        Ok(counter)
    }
}

impl Recorder for Ends {
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
