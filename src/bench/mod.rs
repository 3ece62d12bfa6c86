//! `mainspring bench`: measurements of the engine on this machine and its database, one file per benchmark.
//!
//! Progress goes to standard error, once a second; the result to standard output, with `--json` also as one object on the
//! last line. `plot` draws such objects.

mod failover;
mod history;
mod hub;
mod locks;
mod nodes;
mod plot;
mod report;
mod rows;
mod settings;
mod signals;
mod timers;
mod workflows;

use crate::harness::failure::Failure;
use crate::harness::settings::Target;
pub(crate) use settings::Bench;
use settings::BenchCommand;

/// Runs one benchmark on the given database.
pub(crate) async fn run(target: &Target, settings: &Bench) -> Result<(), Failure> {
    match &settings.command {
        BenchCommand::Churn(settings) => workflows::churn::run(target, settings).await,
        BenchCommand::DeadRows(settings) => rows::dead_rows(target, settings).await,
        BenchCommand::DueAtOnce(settings) => rows::due_at_once(target, settings).await,
        BenchCommand::Failover(settings) => failover::run(target, settings).await,
        BenchCommand::History(settings) => history::run(target, settings).await,
        BenchCommand::Hub(settings) => hub::run(target, settings).await,
        BenchCommand::Locks(settings) => locks::run(target, settings).await,
        BenchCommand::Loop(settings) => rows::loop_commits(target, settings).await,
        BenchCommand::Memory(settings) => rows::memory(target, settings).await,
        BenchCommand::Plot(settings) => plot::run(settings),
        BenchCommand::Signals(settings) => signals::run(target, settings).await,
        BenchCommand::Poll(settings) => rows::measure_polls(target, settings).await,
        BenchCommand::Snapshot(settings) => rows::snapshot(target, settings).await,
        BenchCommand::Timers(settings) => timers::run(target, settings).await,
        BenchCommand::Workflows(settings) => workflows::run(target, settings).await,
    }
}
