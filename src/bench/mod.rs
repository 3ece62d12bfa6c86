//! `mainspring bench`: how fast this machine and its database are, one file per question.
//!
//! Progress goes to standard error, once a second; the outcome to standard output, with `--json` as one object on the
//! last line. `plot` draws such objects.

mod baseline;
mod failover;
mod figures;
mod locks;
mod members;
mod plot;
mod settings;
mod signals;
mod surroundings;
mod timers;
mod workflows;

use crate::harness::failure::Failure;
use crate::harness::target::Target;
pub(crate) use settings::Bench;
use settings::BenchCommand;

/// Runs one benchmark on the given database.
pub(crate) async fn run(target: &Target, settings: &Bench) -> Result<(), Failure> {
    match &settings.command {
        BenchCommand::Failover(settings) => failover::run(target, settings).await,
        BenchCommand::Locks(settings) => locks::run(target, settings).await,
        BenchCommand::Plot(settings) => plot::run(settings),
        BenchCommand::Signals(settings) => signals::run(target, settings).await,
        BenchCommand::Timers(settings) => timers::run(target, settings).await,
        BenchCommand::Workflows(settings) => workflows::run(target, settings).await,
    }
}
