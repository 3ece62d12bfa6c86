//! `mainspring bench failover`: how long the bursts of a node are without one when it dies, hangs or is cut off.
//!
//! Three nodes on one database. In each round one of them, in turn, has so many bursts in flight, each of which takes
//! two seconds, when it is struck. Measured is the time from then to the start of the activity in the last burst that is
//! run again, by the database's clock at both ends: the fault's moment is read from the database right before it (so a
//! round trip is counted in), the start is what the journal has. Afterwards a killed node is replaced, and one that was
//! stopped or cut off goes on: it must come back under a new incarnation, and write nothing of what it had in its hands.

mod cluster;
mod silence;

use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use tokio_postgres::Client as Database;

use super::figures::percentile;
use super::surroundings;
use crate::bench::settings::BenchFailover;
use crate::harness::client::{Client, text};
use crate::harness::failure::Failure;
use crate::harness::scratch::ScratchDatabase;
use crate::harness::target::Target;
use crate::harness::work_activity::WORK;
use crate::harness::{say, stop};
use crate::id::{InstanceId, TenantId};
use crate::runtime;
use crate::store::node::by_node_id;
use crate::store::observe;
use cluster::Cluster;

/// From the issue.
const BURST: Duration = Duration::from_secs(2);
const ACTIVITY: &str = "work";

/// Requests that are under way at the same time.
const LANES: usize = 32;

/// When not all bursts are on the node by then, the first would end before the fault.
const IN_FLIGHT_PATIENCE: Duration = Duration::from_millis(1500);

/// What the node has not taken up by then is with another one.
const CLAIM_PATIENCE: Duration = Duration::from_millis(150);

/// What is not finished so long after the fault is lost.
const PATIENCE: Duration = Duration::from_secs(60);

/// What was counted.
#[derive(Default)]
struct Outcome {
    /// Of each round, in milliseconds.
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
    let url = target.database_url()?.to_owned();
    let stop = stop::on_signals()?;
    let [machine, server] = surroundings::describe(&url).await?;
    let scratch = ScratchDatabase::in_database(&url, "bench").await?;
    let mut cluster = Cluster::new(target, settings, &url, &scratch.schema);
    let measured = tokio::select! {
        outcome = measure(&scratch, &mut cluster, settings) => outcome,
        () = stop.cancelled() => Err(Failure::failed("stopped before the end")),
    };
    cluster.stop().await;
    let judged = match measured {
        Ok(outcome) => judge(&scratch, outcome).await,
        Err(failure) => Err(failure),
    };
    let cleared = scratch.clear().await;
    let outcome = judged?;
    cleared?;
    say(&format!(
        "fault: {}; {} rounds of {} bursts of {} s on one of three nodes, after one round to warm up",
        settings.fault.word(),
        settings.rounds,
        settings.bursts,
        BURST.as_secs()
    ));
    say(&machine);
    say(&server);
    let [p50, p95, max] = [50, 95, 100].map(|percent| percentile(&outcome.times, percent));
    say(&format!(
        "until the last burst ran elsewhere: p50 {p50:.1} ms, p95 {p95:.1} ms, max {max:.1} ms"
    ));
    say(&format!(
        "{} lost, {} twice, {} errors",
        outcome.lost, outcome.twice, outcome.errors
    ));
    if settings.json {
        say(&report(settings, &outcome).to_string());
    }
    if outcome.lost + outcome.twice + outcome.errors > 0 {
        return Err(Failure::found());
    }
    Ok(())
}

fn report(settings: &BenchFailover, outcome: &Outcome) -> Value {
    let [p50, p95, max] = [50, 95, 100].map(|percent| percentile(&outcome.times, percent));
    json!({
        "bench": "failover",
        "fault": settings.fault.word(),
        "rounds": settings.rounds,
        "bursts": settings.bursts,
        "p50_ms": p50,
        "p95_ms": p95,
        "max_ms": max,
        "lost": outcome.lost,
        "twice": outcome.twice,
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
    if let Some(first) = cluster.members.first() {
        let definition = json!({"definitionId": "bench", "root": {"type": "Elsa.Sequence", "id": "steps", "activities": [
            {"type": WORK, "id": ACTIVITY, "milliseconds": {"typeName": "Int64", "expression": {
                "type": "Literal", "value": u64::try_from(BURST.as_millis()).unwrap_or_default()}}}]}});
        let save = json!({"model": definition, "publish": true});
        Client::new(&first.node.url())
            .post("workflow-definitions", &save)
            .await?;
    }
    for round in 0..=settings.rounds {
        let taken = one_round(&session.client, cluster, settings, &mut outcome).await?;
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
            None => eprintln!("{name}: nothing was run again"),
        }
        if round < settings.rounds {
            cluster.complete().await?;
        }
    }
    Ok(outcome)
}

/// The milliseconds from the fault to the start of the last burst that was run again.
async fn one_round(
    database: &Database,
    cluster: &mut Cluster,
    settings: &BenchFailover,
    outcome: &mut Outcome,
) -> Result<Option<f64>, Failure> {
    let tenant = TenantId::default();
    // In turn: whoever comes back or is new goes to the end.
    let mut victim = cluster.members.remove(0);
    let old = by_node_id(database, &victim.id).await?;
    let api = Client::new(&victim.node.url());
    let (mut accepted, began, mut asked) = (Vec::new(), Instant::now(), None::<Instant>);
    let held = loop {
        let held = observe::held(database, &victim.id).await?;
        if held.len() >= settings.bursts {
            break held;
        }
        if began.elapsed() > IN_FLIGHT_PATIENCE {
            outcome.error(&format!(
                "only {} bursts were in flight on {}",
                held.len(),
                victim.node.name
            ));
            break held;
        }
        // Some may have gone to another node: as many more are started.
        if asked.is_none_or(|asked| asked.elapsed() > CLAIM_PATIENCE) {
            start(&api, settings.bursts - held.len(), &mut accepted, outcome).await;
            asked = Some(Instant::now());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let fault_at = observe::clock(database).await?;
    victim.strike(settings.fault).await?;
    let struck = Instant::now();

    let mut next_word = Duration::from_secs(1);
    loop {
        let finished = observe::finished(database, &tenant, &accepted).await?;
        if finished == accepted.len() {
            break;
        }
        if struck.elapsed() > PATIENCE {
            outcome.lost += accepted.len() - finished;
            outcome.error(&format!("{} instances are not finished", accepted.len() - finished));
            break;
        }
        if struck.elapsed() > next_word {
            eprintln!(
                "{} s after the fault: {finished} of {} instances finished",
                next_word.as_secs(),
                accepted.len()
            );
            next_word += Duration::from_secs(1);
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    match victim.recover(settings.fault, database, &old).await {
        Ok(true) => cluster.members.push(victim),
        Ok(false) => {}
        Err(failure) => {
            outcome.error(&failure.told());
            victim.node.stop().await;
        }
    }
    let begun = observe::begun(database, &tenant, &held, ACTIVITY, fault_at).await?;
    let again: Vec<f64> = begun.into_iter().filter(|since| *since > 0.0).collect();
    if again.len() < held.len() {
        outcome.error(&format!(
            "{} of {} bursts were not run again",
            held.len() - again.len(),
            held.len()
        ));
    }
    Ok(again.into_iter().max_by(f64::total_cmp))
}

/// Starts instances at a node, and keeps the ids of those that it has accepted.
async fn start(api: &Client, count: usize, accepted: &mut Vec<InstanceId>, outcome: &mut Outcome) {
    let nothing = json!({});
    let starts = (0..count).map(|_| api.post("workflow-definitions/bench/dispatch", &nothing));
    let answers: Vec<_> = stream::iter(starts).buffer_unordered(LANES).collect().await;
    for answer in answers {
        match answer {
            Ok(answer) => accepted.push(InstanceId::new(text(&answer, "workflowInstanceId"))),
            Err(failure) => outcome.error(&failure.told()),
        }
    }
}

/// What is to be seen when all nodes have ended.
async fn judge(scratch: &ScratchDatabase, mut outcome: Outcome) -> Result<Outcome, Failure> {
    let session = scratch.open().await?;
    outcome.twice = usize::try_from(observe::twice(&session.client).await?).unwrap_or(0);
    for violation in runtime::check(&scratch.url, &scratch.schema).await? {
        outcome.error(&format!(
            "{} is violated, {} times",
            violation.invariant, violation.count
        ));
    }
    Ok(outcome)
}
