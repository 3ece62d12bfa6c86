//! `mainspring bench timers`: how late sleeping instances resume.
//!
//! The instances wait in a delay of an hour. When all of them wait, one statement sets their due times, evenly over some
//! seconds or to one instant. No node is notified: nodes find these timers as they find those written by another node.
//!
//! Lateness is the time from the due time to the start of the first activity after the delay in the journal, both by the
//! database's clock. An instance that resumes early or twice, or does not finish, is an error.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use serde_json::json;

use super::nodes;
use super::queries::{self, Ran};
use super::report::{Latencies, Measured, describe_environment};
use crate::bench::settings::BenchTimers;
use crate::harness::client::{Client, text_field};
use crate::harness::failure::Failure;
use crate::harness::print_line;
use crate::harness::scratch::ScratchDatabase;
use crate::harness::settings::Target;
use crate::id::{InstanceId, TenantId};

/// The first activity after the delay.
const ACTIVITY: &str = "after";

/// The number of concurrent requests.
const CONCURRENT_REQUESTS: usize = 32;

/// The time until the first timer is due: two check-ins, at which nodes learn of it.
const LEAD: Duration = Duration::from_secs(3);

/// The timeout until all instances sleep, and after the last due time until all have run.
const TIMEOUT: Duration = Duration::from_secs(60);

struct Outcome {
    ran: Vec<Ran>,
    accepted: usize,
    twice: usize,
    errors: usize,
}

pub(crate) async fn run(target: &Target, settings: &BenchTimers) -> Result<(), Failure> {
    let [machine, server] = describe_environment(target.database_url()?).await?;
    let measured = nodes::with_nodes(
        target,
        settings.nodes,
        |_| {},
        async |scratch, clients| measure(scratch, clients, settings).await,
    );
    let (outcome, broken) = measured.await?;
    let span = if settings.at_once { 0 } else { settings.seconds };
    let lateness: Vec<f64> = outcome.ran.iter().filter_map(|ran| ran.lateness_us).collect();
    let early = lateness.iter().filter(|late| **late < 0.0).count();
    let lost = outcome.accepted - outcome.ran.iter().filter(|ran| ran.ended_us.is_some()).count();
    // From the first due time to the last end.
    let all_us = outcome
        .ran
        .iter()
        .filter_map(|ran| Some(ran.due_us + ran.ended_us?))
        .fold(0.0, f64::max);
    let latencies = Latencies::of(&lateness);
    let measured = Measured {
        clients: settings.timers,
        seconds: span,
        per_second: lateness.len() as f64 / (all_us / 1e6).max(1e-6),
        errors: outcome.errors + broken + early,
    };
    let when = if settings.at_once {
        "at one instant".to_owned()
    } else {
        format!("over {span} s")
    };
    print_line(&format!(
        "{} sleeping instances due {when}, {} nodes",
        settings.timers, settings.nodes
    ));
    print_line(&machine);
    print_line(&server);
    print_line(&format!("lateness: {}", latencies.in_text()));
    let all_ms = (all_us / 100.0).round() / 10.0;
    print_line(&format!("from the first due time to the last end: {all_ms:.1} ms"));
    let twice = outcome.twice;
    print_line(&format!(
        "{lost} lost, {twice} twice, {early} early, {} errors",
        measured.errors
    ));
    if settings.json {
        let more = json!({
            "timers": settings.timers,
            "nodes": settings.nodes,
            "at_once": settings.at_once,
            "all_ms": all_ms,
            "total_ms": all_ms,
            "lost": lost,
            "twice": twice,
            "duplicates": twice,
            "early": early,
        });
        print_line(&latencies.report("timers", &measured, more).to_string());
    }
    if lost + twice + measured.errors > 0 {
        return Err(Failure::reported());
    }
    Ok(())
}

async fn measure(scratch: &ScratchDatabase, clients: &[Client], settings: &BenchTimers) -> Result<Outcome, Failure> {
    let session = scratch.open().await?;
    let (database, tenant) = (&session.client, TenantId::default());
    let definition = json!({"definitionId": "bench", "root": {"type": "Elsa.Sequence", "id": "steps", "activities": [
        {"type": "Elsa.Delay", "id": "sleep", "timeSpan": "01:00:00"},
        {"type": "Elsa.WriteLine", "id": ACTIVITY, "text": "ran"}]}});
    if let Some(first) = clients.first() {
        first.publish(&definition).await?;
    }
    let (accepted, errors) = start(clients, settings.timers).await;
    let began = Instant::now();
    loop {
        let unclaimed = queries::unclaimed_timers(database).await?;
        if unclaimed >= accepted.len() {
            break;
        }
        if began.elapsed() > TIMEOUT {
            let claimed = accepted.len() - unclaimed;
            return Err(Failure::failed(format!(
                "{claimed} instances have not reached the delay"
            )));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let span = if settings.at_once {
        Duration::ZERO
    } else {
        Duration::from_secs(settings.seconds as u64)
    };
    let due = queries::set_due(database, LEAD, span).await?;
    let set = Instant::now();
    for second in 1.. {
        tokio::time::sleep_until((set + Duration::from_secs(second)).into()).await;
        let finished = queries::finished(database, &tenant, &accepted).await?;
        eprintln!("{second} s: {finished} of {} have run", accepted.len());
        if finished == accepted.len() || set.elapsed() > LEAD + span + TIMEOUT {
            break;
        }
    }
    Ok(Outcome {
        ran: queries::ran(database, &tenant, &due, ACTIVITY).await?,
        accepted: accepted.len(),
        twice: usize::try_from(queries::twice(database).await?).unwrap_or(0),
        errors,
    })
}

/// Starts instances at the nodes in turn. Returns the accepted ones, and the number of errors.
async fn start(clients: &[Client], count: usize) -> (Vec<InstanceId>, usize) {
    let nothing = json!({});
    let starts = clients.iter().cycle().take(count);
    let starts = starts.map(|client| client.post("workflow-definitions/bench/dispatch", &nothing));
    let mut answers = stream::iter(starts).buffer_unordered(CONCURRENT_REQUESTS);
    let (mut accepted, mut errors, mut reported) = (Vec::new(), 0, Instant::now());
    while let Some(answer) = answers.next().await {
        match answer {
            Ok(answer) => accepted.push(InstanceId::new(text_field(&answer, "workflowInstanceId"))),
            Err(failure) => {
                eprintln!("error: {}", failure.redacted());
                errors += 1;
            }
        }
        if reported.elapsed() >= Duration::from_secs(1) {
            eprintln!("{} of {count} started", accepted.len());
            reported = Instant::now();
        }
    }
    (accepted, errors)
}
