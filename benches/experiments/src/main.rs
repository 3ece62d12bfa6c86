//! Experiments that answered questions about Mainspring's engine: rows of more instances than a benchmark would run, old
//! snapshots, observers, hostile scripts, shared event names. What a user measures is `mainspring bench`.
//!
//! Progress goes to standard error; the result to standard output, with `--json` also as one object on the last line. `plot`
//! draws such objects, also those of `mainspring bench`.

mod churn;
mod composed;
mod counting_proxy;
mod database;
mod engines;
mod events;
mod history;
mod hub;
mod locks;
mod metrics;
mod plot;
mod rows;
mod settings;
mod statements;
mod web;

use std::process::ExitCode;

use clap::Parser;
use mainspring::internals::{Failure, Target};
use settings::{Arguments, Experiment};

/// That of the program: what is measured must not depend on the allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Nodes are this same binary, started as `serve`; `locks` measures itself beside `bench locks`.
    if std::env::args()
        .nth(1)
        .is_some_and(|first| first == "serve" || first == "bench")
    {
        return mainspring::cli::main();
    }
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let target = Target {
        database_url: arguments.database_url.clone(),
        schema: "mainspring".to_owned(),
        log: arguments.log.clone(),
    };
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| Failure::failed(format!("cannot start the runtime: {error}")))?;
    runtime.block_on(async {
        let target = &target;
        match &arguments.experiment {
            Experiment::Churn(settings) => churn::run(target, settings).await,
            Experiment::Composed(settings) => composed::run(target, settings).await,
            Experiment::Credentials(settings) => web::credentials(target, settings).await,
            Experiment::DeadRows(settings) => rows::dead_rows(target, settings).await,
            Experiment::DueAtOnce(settings) => rows::due_at_once(target, settings).await,
            Experiment::FanOut(settings) => events::fan_out(target, settings).await,
            Experiment::History(settings) => history::run(target, settings).await,
            Experiment::Hub(settings) => hub::run(target, settings).await,
            Experiment::Links(settings) => web::links(target, settings).await,
            Experiment::Locks(settings) => locks::run(target, settings).await,
            Experiment::Loop(settings) => rows::loop_commits(target, settings).await,
            Experiment::Metrics(settings) => metrics::run(target, settings).await,
            Experiment::Memory(settings) => rows::memory(target, settings).await,
            Experiment::Outgoing(settings) => web::outgoing(target, settings).await,
            Experiment::Plot(settings) => plot::run(settings),
            Experiment::Poll(settings) => rows::measure_polls(target, settings).await,
            Experiment::SharedNames(settings) => events::shared_names(target, settings).await,
            Experiment::Snapshot(settings) => rows::snapshot(target, settings).await,
            Experiment::Statements(settings) => statements::run(target, settings).await,
            Experiment::Traces(settings) => web::traces(target, settings).await,
            Experiment::Uploads(settings) => web::uploads(target, settings).await,
            Experiment::Webhooks(settings) => web::webhooks(target, settings).await,
        }
    })
}
