//! `mainspring bench`: measurements of the engine on this machine and its database, one file per benchmark.
//!
//! Progress goes to standard error once a second; the result goes to standard output, with `--json` also as one object on
//! the last line. Experiments that answer questions about the engine are a separate package, `benches/experiments`.

mod failover;
pub(crate) mod finished_counter;
mod locks;
pub(crate) mod measured_workflow;
pub(crate) mod nodes;
mod queries;
pub(crate) mod report;
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
        BenchCommand::Failover(settings) => failover::run(target, settings).await,
        BenchCommand::Locks(settings) => locks::run(target, settings).await,
        BenchCommand::Signals(settings) => signals::run(target, settings).await,
        BenchCommand::Timers(settings) => timers::run(target, settings).await,
        BenchCommand::Workflows(settings) => workflows::run(target, settings).await,
    }
}
