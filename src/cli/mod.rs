//! The program:
//! `mainspring demo | dev | serve | settings | studio | migrate | pause | resume | status | link-keys | user | key | check | doctor |
//! validate | cron | eval | elsa | bench`,
//! one file per command.
//!
//! Guarantees for scripts, for all commands:
//!
//! - exit codes: 0 done, 1 failed or found something, 2 usage, 3 no database (or no server of a selected service), 4 the
//!   node hung, 5 its script threads hung;
//! - standard output contains results only: lines of workflows, `ready URL`, the outcome of a check. Logs and errors go to
//!   standard error;
//! - no output contains a password or a key, not even an error of a library (`harness::secret`); only `eval` prints what its
//!   expression makes of a secret, and `user add` and `key add` print what they have made.

mod check;
mod cron;
mod demo;
mod dev;
mod doctor;
mod elsa;
mod elsa_report;
mod eval;
mod health_server;
mod key;
mod link_keys;
mod log;
mod migrate;
mod pause;
mod public_url;
mod recorder;
mod remote_server;
mod samples;
mod serve;
mod services;
mod settings;
mod studio;
mod trace_export;
mod user;
mod validate;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use crate::activity::{Console, Stdout};
#[cfg(feature = "bench")]
use crate::bench;
use crate::harness::failure::Failure;
use crate::harness::{print_line, secret};
use elsa::ElsaEnvironment;
use settings::{Command, ElsaCommand, ProgramArguments};

/// How long the remaining tasks may take to end.
const RUNTIME_TIMEOUT: Duration = Duration::from_millis(500);

/// Runs the program with the arguments and the environment of this process.
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let program = match settings::of_arguments(ElsaEnvironment::of_process(), &arguments) {
        Ok(program) => program,
        Err(error) => return report_usage(&error),
    };
    match run(program) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(program: ProgramArguments) -> Result<(), Failure> {
    let ProgramArguments { common, command } = program;
    log::start(&common.log, common.log_format)?;
    for warning in &common.warnings {
        tracing::warn!("{warning}");
    }
    // One worker thread per core, which is tokio's default.
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| Failure::failed(format!("cannot start the runtime: {error}")))?;
    let outcome = runtime.block_on(async {
        match command {
            Command::Demo => demo::run(&common).await,
            Command::Dev(settings) => dev::run(&common, &settings).await,
            Command::Serve(settings) => serve::run(&common, &settings).await,
            Command::Settings => {
                settings::listing().iter().for_each(|line| print_line(line));
                Ok(())
            }
            Command::Studio(command) => studio::run(&command).await,
            Command::Migrate(settings) => migrate::run(&common, &settings).await,
            Command::Pause(settings) => pause::pause(&common, &settings).await,
            Command::Resume => pause::resume(&common).await,
            Command::Status(settings) => pause::status(&common, &settings).await,
            Command::LinkKeys(command) => link_keys::run(&common, &command).await,
            Command::User { of, command } => user::run(&common, &of, &command).await,
            Command::Key { of, command } => key::run(&common, &of, &command).await,
            Command::Check(settings) => check::run(&common, &settings).await,
            Command::Validate(settings) => validate::run(&common, &settings).await,
            Command::Doctor(settings) => doctor::run(&common, &settings).await,
            Command::Cron(settings) => cron::run(&settings),
            Command::Eval(settings) => eval::run(&settings).await,
            Command::Elsa(ElsaCommand::Report(settings)) => elsa_report::run(&common, &settings).await,
            #[cfg(feature = "bench")]
            Command::Bench(settings) => bench::run(&common.target(), &settings).await,
        }
    });
    // Blocking work, and a thread that hangs, would keep the process for as long as they take.
    runtime.shutdown_timeout(RUNTIME_TIMEOUT);
    // Lines that a node still holds when it exits early.
    Stdout.flush(Duration::from_millis(200));
    outcome
}

/// Prints the message of clap, and returns its exit code: 0 for help and version.
fn report_usage(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    let safe = secret::redact(&text);
    // A text without secrets is printed by clap, in colours.
    let printed = if error.exit_code() == 0 || safe == text {
        error.print()
    } else {
        io::stderr().write_all(safe.as_bytes())
    };
    drop(printed);
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}
