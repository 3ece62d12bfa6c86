//! `mainspring bench failover`: how long a take-over takes when a node is killed, stopped or cut off.
//!
//! Three nodes share one database. In each round, one of them in turn has bursts of two seconds in flight when the fault
//! is injected. The benchmark measures the time from the fault to the start of the activity in the last repeated burst, by
//! the database's clock: the fault's time is read right before it (which includes a round trip), and the start is that in
//! the journal. Afterwards a killed node is replaced, and a stopped or disconnected one continues: it must rejoin under a
//! new incarnation, and must not commit any of its former bursts.

mod blackhole;
mod cluster;

use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use tokio_postgres::Client as Database;

use super::nodes::with_schema;
use super::queries;
use super::report::{describe_environment, percentile};
use crate::bench::measured_workflow::name_of;
use crate::bench::settings::BenchFailover;
use crate::harness::client::{Client, text_field};
use crate::harness::failure::Failure;
use crate::harness::print_line;
use crate::harness::scratch::ScratchDatabase;
use crate::harness::settings::Target;
use crate::harness::stop::unless_stopped;
use crate::harness::work_activity::WORK_ACTIVITY;
use crate::id::{InstanceId, TenantId};
use crate::runtime;
use crate::store::node::by_node_id;
use cluster::Cluster;

/// The duration of a burst.
const BURST: Duration = Duration::from_secs(2);
const ACTIVITY: &str = "work";

/// The number of concurrent requests.
const CONCURRENT_REQUESTS: usize = 32;

/// The timeout until all bursts are in flight on the node; later, the first would end before the fault.
const IN_FLIGHT_TIMEOUT: Duration = Duration::from_millis(1500);

/// How long the node has to claim its starts; others are then claimed by other nodes.
const CLAIM_TIMEOUT: Duration = Duration::from_millis(150);

/// The timeout of all instances after the fault.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The counts of all rounds.
#[derive(Default)]
struct Outcome {
    /// The take-over time of each round, in milliseconds.
    times: Vec<f64>,
    lost: usize,
    twice: usize,
    errors: usize,
}

impl Outcome {
    fn error(&mut self, what: &str) {
        eprintln!("error: {what}");
        self.errors += 1;
    }
}

pub(crate) async fn run(target: &Target, settings: &BenchFailover) -> Result<(), Failure> {
    let [machine, server] = describe_environment(target.database_url()?).await?;
    let outcome = with_schema(target, async |scratch, stop| {
        let mut cluster = Cluster::new(target, settings, &scratch.url, &scratch.schema);
        let measured = unless_stopped(stop, measure(scratch, &mut cluster, settings)).await;
        cluster.stop().await;
        check_database(scratch, measured?).await
    })
    .await?;
    print_line(&format!(
        "fault: {}; {} rounds of {} bursts of {} s on one of three nodes, after one round to warm up",
        name_of(settings.fault),
        settings.rounds,
        settings.bursts,
        BURST.as_secs()
    ));
    print_line(&machine);
    print_line(&server);
    let [p50, p95, max] = [50, 95, 100].map(|percent| percentile(&outcome.times, percent));
    print_line(&format!(
        "until the last burst ran on another node: p50 {p50:.1} ms, p95 {p95:.1} ms, max {max:.1} ms"
    ));
    print_line(&format!(
        "{} lost, {} twice, {} errors",
        outcome.lost, outcome.twice, outcome.errors
    ));
    if settings.json {
        print_line(&report(settings, &outcome).to_string());
    }
    if outcome.lost + outcome.twice + outcome.errors > 0 {
        return Err(Failure::reported());
    }
    Ok(())
}

fn report(settings: &BenchFailover, outcome: &Outcome) -> Value {
    let [p50, p95, max] = [50, 95, 100].map(|percent| percentile(&outcome.times, percent));
    json!({
        "bench": "failover",
        "fault": name_of(settings.fault),
        "rounds": settings.rounds,
        "bursts": settings.bursts,
        "p50_ms": p50,
        "p95_ms": p95,
        "max_ms": max,
        "lost": outcome.lost,
        "twice": outcome.twice,
        "duplicates": outcome.twice,
        "errors": outcome.errors,
    })
}

async fn measure(
    scratch: &ScratchDatabase,
    cluster: &mut Cluster,
    settings: &BenchFailover,
) -> Result<Outcome, Failure> {
    let session = scratch.open().await?;
    let mut outcome = Outcome::default();
    cluster.complete().await?;
    if let Some(first) = cluster.nodes.first() {
        let definition = json!({"definitionId": "bench", "root": {"type": "Elsa.Sequence", "id": "steps", "activities": [
            {"type": WORK_ACTIVITY, "id": ACTIVITY, "milliseconds": {"typeName": "Int64", "expression": {
                "type": "Literal", "value": u64::try_from(BURST.as_millis()).unwrap_or_default()}}}]}});
        Client::new(&first.process.url()).publish(&definition).await?;
    }
    for round in 0..=settings.rounds {
        let taken = run_round(&session.client, cluster, settings, &mut outcome).await?;
        let name = if round == 0 {
            "warm-up".to_owned()
        } else {
            format!("round {round} of {}", settings.rounds)
        };
        match taken {
            Some(time) => {
                eprintln!("{name}: {time:.1} ms");
                if round > 0 {
                    outcome.times.push(time);
                }
            }
            None => eprintln!("{name}: no burst was repeated"),
        }
        if round < settings.rounds {
            cluster.complete().await?;
        }
    }
    Ok(outcome)
}

/// Injects a fault; returns the milliseconds to the start of the last burst that was executed again.
async fn run_round(
    database: &Database,
    cluster: &mut Cluster,
    settings: &BenchFailover,
    outcome: &mut Outcome,
) -> Result<Option<f64>, Failure> {
    let tenant = TenantId::default();
    // In turn: a rejoined or new node goes to the end.
    let mut node = cluster.nodes.remove(0);
    let old = by_node_id(database, &node.id).await?;
    let api = Client::new(&node.process.url());
    let (mut accepted, began, mut requested) = (Vec::new(), Instant::now(), None::<Instant>);
    let held = loop {
        let held = queries::held(database, &node.id).await?;
        if held.len() >= settings.bursts {
            break held;
        }
        if began.elapsed() > IN_FLIGHT_TIMEOUT {
            outcome.error(&format!(
                "only {} bursts were in flight on {}",
                held.len(),
                node.process.name
            ));
            break held;
        }
        // Other nodes may have claimed some: as many more are started.
        if requested.is_none_or(|requested| requested.elapsed() > CLAIM_TIMEOUT) {
            start(&api, settings.bursts - held.len(), &mut accepted, outcome).await;
            requested = Some(Instant::now());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let fault_at = queries::clock(database).await?;
    node.inject(settings.fault).await?;
    let injected = Instant::now();

    let mut next_report = Duration::from_secs(1);
    loop {
        let finished = queries::finished(database, &tenant, &accepted).await?;
        if finished == accepted.len() {
            break;
        }
        if injected.elapsed() > TIMEOUT {
            outcome.lost += accepted.len() - finished;
            outcome.error(&format!("{} instances are not finished", accepted.len() - finished));
            break;
        }
        if injected.elapsed() > next_report {
            eprintln!(
                "{} s after the fault: {finished} of {} instances finished",
                next_report.as_secs(),
                accepted.len()
            );
            next_report += Duration::from_secs(1);
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    match node.end_fault(settings.fault, database, &old).await {
        Ok(true) => cluster.nodes.push(node),
        Ok(false) => {}
        Err(failure) => {
            outcome.error(&failure.redacted());
            node.process.stop().await;
        }
    }
    let begun = queries::begun(database, &tenant, &held, ACTIVITY, fault_at).await?;
    let again: Vec<f64> = begun.into_iter().filter(|since| *since > 0.0).collect();
    if again.len() < held.len() {
        outcome.error(&format!(
            "{} of {} bursts were not executed again",
            held.len() - again.len(),
            held.len()
        ));
    }
    Ok(again.into_iter().max_by(f64::total_cmp))
}

/// Starts instances at a node, and collects the ids of the accepted ones.
async fn start(api: &Client, count: usize, accepted: &mut Vec<InstanceId>, outcome: &mut Outcome) {
    let nothing = json!({});
    let starts = (0..count).map(|_| api.post("workflow-definitions/bench/dispatch", &nothing));
    let answers: Vec<_> = stream::iter(starts)
        .buffer_unordered(CONCURRENT_REQUESTS)
        .collect()
        .await;
    for answer in answers {
        match answer {
            Ok(answer) => accepted.push(InstanceId::new(text_field(&answer, "workflowInstanceId"))),
            Err(failure) => outcome.error(&failure.redacted()),
        }
    }
}

/// Checks the database after the exit of all nodes.
async fn check_database(scratch: &ScratchDatabase, mut outcome: Outcome) -> Result<Outcome, Failure> {
    let session = scratch.open().await?;
    outcome.twice = usize::try_from(queries::twice(&session.client).await?).unwrap_or(0);
    for violation in runtime::check(&scratch.url, &scratch.schema).await? {
        outcome.error(&format!(
            "{} is violated, {} times",
            violation.invariant, violation.count
        ));
    }
    Ok(outcome)
}
