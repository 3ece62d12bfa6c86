//! The adapter of a public harness that compares job queues in PostgreSQL: one process that embeds the engine, produces jobs
//! and runs them, each a workflow instance of one activity. `benches/neutral/README.md` says how to run it.
//!
//! The environment has its settings. Standard output has the records that the harness reads, one JSON object a line; standard
//! error has messages. SIGTERM ends it.

mod depth;
mod histogram;
mod job;
mod measures;
mod producer;
mod records;
mod sampler;
mod settings;

use std::future::pending;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use mainspring::Engine;
use mainspring::internals::Failure;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;

use crate::depth::DepthReader;
use crate::measures::Measures;
use crate::settings::Settings;

/// That of the program: what is measured must not depend on the allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long bursts that run at the end may take.
const DRAIN: Duration = Duration::from_secs(2);

/// How long the engine may take to leave: the harness wants the end within five seconds.
const LEAVE: Duration = Duration::from_secs(4);

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run() -> Result<(), Failure> {
    let settings = Arc::new(Settings::from_env()?);
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| Failure::failed(format!("cannot start the runtime: {error}")))?;
    let outcome = runtime.block_on(serve(settings));
    // A read of standard input may be blocked, which nothing can interrupt.
    runtime.shutdown_background();
    outcome
}

async fn serve(settings: Arc<Settings>) -> Result<(), Failure> {
    let failed = |error| Failure::failed(format!("cannot listen for signals: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let measures = Arc::new(Measures::new(settings.latency_window)?);
    let engine = tokio::select! {
        engine = start(&settings, &measures) => engine?,
        () = either(&mut terminate, &mut interrupt) => return Ok(()),
    };
    let outcome = tokio::select! {
        outcome = work(&settings, &measures, &engine) => outcome,
        () = either(&mut terminate, &mut interrupt) => Ok(()),
    };
    // What is not released in time, other nodes take over once this one has expired.
    if tokio::time::timeout(LEAVE, engine.shutdown_within(DRAIN))
        .await
        .is_err()
    {
        eprintln!("mainspring-neutral: the engine did not leave in time");
    }
    outcome
}

/// The engine, with the job published.
async fn start(settings: &Settings, measures: &Arc<Measures>) -> Result<Engine, Failure> {
    let engine = Engine::builder(&settings.database_url)
        .schema(settings::SCHEMA)
        .node_id(format!("bench-{}", settings.instance_id))
        .workers(settings.worker_count)
        .pool_size(settings.pool_size)
        .activity(job::Job::new(settings.job_work, Arc::clone(measures)))
        .start()
        .await?;
    engine.save(job::definition(settings.journal)?, true).await?;
    Ok(engine)
}

/// Produces, samples and reads depths until one of them fails.
async fn work(settings: &Arc<Settings>, measures: &Arc<Measures>, engine: &Engine) -> Result<(), Failure> {
    let reader = DepthReader::connect(&settings.database_url).await?;
    records::descriptor(settings, &reader.event_tables().await?)?;
    let mut tasks = JoinSet::new();
    tasks.spawn(sampler::run(Arc::clone(settings), Arc::clone(measures)));
    tasks.spawn(producer::run(
        Arc::clone(settings),
        Arc::clone(measures),
        engine.clone(),
    ));
    if settings.is_observer() {
        tasks.spawn(depth::run(reader, Arc::clone(settings), Arc::clone(measures)));
    }
    match tasks.join_next().await {
        Some(Ok(outcome)) => outcome,
        Some(Err(error)) => Err(Failure::failed(format!("a task of the adapter failed: {error}"))),
        None => pending().await,
    }
}

async fn either(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
