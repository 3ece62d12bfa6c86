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
mod signals;
mod surroundings;
mod timers;
mod workflows;

use super::failure::Failure;
use super::settings::{Bench, BenchCommand, Common};

pub(super) async fn run(common: &Common, settings: &Bench) -> Result<(), Failure> {
    match &settings.command {
        BenchCommand::Failover(settings) => failover::run(common, settings).await,
        BenchCommand::Locks(settings) => locks::run(common, settings).await,
        BenchCommand::Plot(settings) => plot::run(settings),
        BenchCommand::Signals(settings) => signals::run(common, settings).await,
        BenchCommand::Timers(settings) => timers::run(common, settings).await,
        BenchCommand::Workflows(settings) => workflows::run(common, settings).await,
    }
}
