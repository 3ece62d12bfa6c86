//! What the program and its benchmarks share: child nodes, a private PostgreSQL, a client of the REST API, the exit code
//! and the message of a failure. Nothing here knows a command.

#![cfg_attr(
    not(feature = "bench"),
    allow(dead_code, reason = "the benchmarks use more of it than the program")
)]

#[cfg(feature = "failpoints")]
pub(crate) mod call_activity;
pub(crate) mod client;
pub(crate) mod failure;
pub(crate) mod nodes;
pub(crate) mod private_postgres;
pub(crate) mod scratch;
pub(crate) mod secret;
pub(crate) mod settings;
pub(crate) mod stop;
pub(crate) mod work_activity;

use std::io::{self, Write};

/// Prints one line on standard output and flushes it. A closed pipe is no failure.
pub fn print_line(line: &str) {
    let mut out = io::stdout().lock();
    drop(writeln!(out, "{line}").and_then(|()| out.flush()));
}
