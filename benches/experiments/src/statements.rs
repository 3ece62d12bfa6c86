//! `statements`: the statements and round trips of a workflow, counted by a proxy. It adds latency: times are not measured.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt, stream};
use mainspring::definition::WorkflowDefinition;
use mainspring::internals::{
    Failure, FirstActivity, ScratchDatabase, Target, count_violations, measured_workflow, name_of, print_line,
    unless_stopped, with_schema,
};
use mainspring::runtime::EventRequest;
use serde_json::json;

use crate::counting_proxy::CountingProxy;
use crate::database::{open, waiting};
use crate::engines::{EngineOptions, Engines, finished, start, wait_for};
use crate::settings::{StartMode, Statements};

/// The instances that run before what is counted: connections, plans and caches are made.
const WARM_UP: usize = 100;

/// How long instances may take until they wait for their event.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) async fn run(target: &Target, settings: &Statements) -> Result<(), Failure> {
    let first = match settings.mode {
        StartMode::Event => FirstActivity::Event,
        _ => FirstActivity::Line,
    };
    let definition = measured_workflow(settings.definition.as_deref(), first)?;
    let definition = settings.options.apply(definition);
    let (counted, violations) = with_schema(target, async |scratch, stop| {
        let counted = unless_stopped(stop, measure(scratch, settings, definition)).await?;
        Ok((counted, count_violations(scratch).await?))
    })
    .await?;
    let [statements, round_trips] = counted.map(|count| {
        let each = count as f64 / settings.instances as f64;
        (each * 100.0).round() / 100.0
    });
    print_line(&format!(
        "{}: {statements} statements, {round_trips} round trips of each of {} workflows",
        name_of(settings.mode),
        settings.instances
    ));
    if settings.json {
        let report = json!({
            "bench": "statements",
            "mode": name_of(settings.mode),
            "commit": name_of(settings.options.commit),
            "journal": name_of(settings.options.journal),
            "clients": settings.clients,
            "instances": settings.instances,
            "statements": statements,
            "round_trips": round_trips,
            "errors": violations,
        });
        print_line(&report.to_string());
    }
    if violations > 0 {
        return Err(Failure::reported());
    }
    Ok(())
}

/// The statements and round trips of all instances.
async fn measure(
    scratch: &ScratchDatabase,
    settings: &Statements,
    definition: WorkflowDefinition,
) -> Result<[u64; 2], Failure> {
    let proxy = CountingProxy::open(&scratch.url).await?;
    let engines = EngineOptions::new(scratch, 1).url(&proxy.url).start().await?;
    engines.publish(&[definition]).await?;
    let counted = || [&proxy.counts.statements, &proxy.counts.round_trips].map(|count| count.load(Relaxed));
    let counted = match settings.mode {
        StartMode::Event => {
            dispatch_waiting(scratch, &engines, settings.instances).await?;
            let (before, wanted) = (counted(), finished() + settings.instances as u64);
            let event = EventRequest {
                name: "bench".to_owned(),
                ..EventRequest::default()
            };
            engines.first()?.trigger_event(event).await?;
            complete(wanted).await?;
            difference(counted(), before)
        }
        mode => {
            run_all(&engines, mode, settings.clients, WARM_UP).await?;
            let before = counted();
            run_all(&engines, mode, settings.clients, settings.instances).await?;
            difference(counted(), before)
        }
    };
    engines.end().await;
    Ok(counted)
}

/// Runs so many instances to their end, by concurrent clients.
async fn run_all(engines: &Engines, mode: StartMode, clients: usize, count: usize) -> Result<(), Failure> {
    let (engine, wanted) = (engines.first()?, finished() + count as u64);
    let starts = (0..count).map(async |_| {
        if mode == StartMode::Execute {
            engine.execute(start("bench", None)).await?;
        } else {
            engine.dispatch(start("bench", None)).await?;
        }
        Ok::<_, Failure>(())
    });
    stream::iter(starts)
        .buffer_unordered(clients)
        .try_for_each(async |()| Ok(()))
        .await?;
    complete(wanted).await
}

/// Dispatches instances, and waits until all wait for their event.
async fn dispatch_waiting(scratch: &ScratchDatabase, engines: &Engines, count: usize) -> Result<(), Failure> {
    let session = open(scratch).await?;
    engines.dispatch(count).await?;
    let began = Instant::now();
    while waiting(&session.client).await? < count {
        if began.elapsed() > TIMEOUT {
            return Err(Failure::failed(
                "the instances do not wait: the definition must start with the event `bench`",
            ));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

async fn complete(wanted: u64) -> Result<(), Failure> {
    wait_for(wanted).await;
    match wanted.saturating_sub(finished()) {
        0 => Ok(()),
        lost => Err(Failure::failed(format!("{lost} instances have not finished"))),
    }
}

fn difference(after: [u64; 2], before: [u64; 2]) -> [u64; 2] {
    let ([statements, trips], [statements_before, trips_before]) = (after, before);
    [
        statements.saturating_sub(statements_before),
        trips.saturating_sub(trips_before),
    ]
}
