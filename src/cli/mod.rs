//! The program: `mainspring demo | dev | serve | migrate | check | cron | bench`, one file per command.
//!
//! What scripts may rely on, whatever the command:
//!
//! - exit codes: 0 done, 1 failed or found something, 2 usage, 3 no database;
//! - standard output holds results alone: what workflows write, `ready URL`, the outcome of a check. Logs and complaints
//!   go to standard error;
//! - a password or a key is never printed, also not inside an error that somebody else worded (`secret`).

mod check;
mod cron;
mod demo;
mod dev;
mod elsa;
mod migrate;
mod probe;
mod samples;
mod serve;
mod settings;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches};
use tracing_subscriber::EnvFilter;

use crate::activity::{Console, Stdout};
#[cfg(feature = "bench")]
use crate::bench;
use crate::harness::failure::Failure;
use crate::harness::secret;
use elsa::ElsaEnvironment;
use settings::{Command, Program};

/// Runs the program with the arguments and the environment of this process.
pub fn main() -> ExitCode {
    let elsa = ElsaEnvironment::of_process();
    let parsed = elsa.apply(Program::command()).try_get_matches();
    let mut program = match parsed.and_then(|matches| Program::from_arg_matches(&matches)) {
        Ok(program) => program,
        Err(error) => return refuse_usage(&error),
    };
    program.common.elsa = elsa;
    match run(program) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(program: Program) -> Result<(), Failure> {
    let Program { common, command } = program;
    log_to_stderr(&common.log)?;
    // One worker thread per core, which is tokio's default.
    let runtime = tokio::runtime::Runtime::new().map_err(|error| Failure::failed(format!("no runtime: {error}")))?;
    let outcome = runtime.block_on(async {
        match command {
            Command::Demo => demo::run(&common).await,
            Command::Dev(settings) => dev::run(&common, &settings).await,
            Command::Serve(settings) => serve::run(&common, &settings).await,
            Command::Migrate => migrate::run(&common).await,
            Command::Check(settings) => check::run(&common, &settings).await,
            Command::Cron(settings) => cron::run(&settings),
            #[cfg(feature = "bench")]
            Command::Bench(settings) => bench::run(&common.target(), &settings).await,
        }
    });
    // Of a node that was left in a hurry.
    Stdout.flush(Duration::from_millis(200));
    outcome
}

/// Prints what clap has to say: help and version are no failure.
fn refuse_usage(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    let safe = secret::redact(&text);
    // Help holds no values, and where there is nothing to hide clap prints in its colours.
    let printed = if error.exit_code() == 0 || safe == text {
        error.print()
    } else {
        io::stderr().write_all(safe.as_bytes())
    };
    drop(printed);
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

fn log_to_stderr(filter: &str) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        Failure::usage(format!(
            "--log is not understood: {error}; try `info` or `mainspring=debug`"
        ))
    })?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_writer(|| secret::Redacting(io::stderr()))
        .try_init()
        .map_err(|error| Failure::failed(format!("cannot log: {error}")))
}
