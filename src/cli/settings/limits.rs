//! Settings of `serve` that bound what workflows may take from a node.

use std::time::Duration;

use clap::Args;

use crate::execution::InterpreterOptions;
use crate::expression::ScriptOptions;
use crate::harness::arguments::{count, duration};

/// What workflows may take.
#[derive(Debug, Args)]
pub(crate) struct Limits {
    /// How long one script may run; the time that it waits for its turn does not count
    #[arg(long, value_name = "DURATION", env = "MAINSPRING_SCRIPT_TIME_LIMIT", hide_env_values = true, default_value = "5s", value_parser = duration)]
    script_time_limit: Duration,
    /// How many threads take up scripts
    #[arg(long, value_name = "COUNT", env = "MAINSPRING_SCRIPT_THREADS", hide_env_values = true, default_value = "2", value_parser = count)]
    script_threads: usize,
    /// How many threads scripts have that run for longer than 50 ms; these take turns
    #[arg(long, value_name = "COUNT", env = "MAINSPRING_SLOW_SCRIPT_THREADS", hide_env_values = true, default_value = "32", value_parser = count)]
    slow_script_threads: usize,
    /// How many MiB of definitions are kept in memory, most of them compiled
    #[arg(long, value_name = "MIB", env = "MAINSPRING_CACHE_MIB", hide_env_values = true, default_value = "256", value_parser = count)]
    cache_mib: usize,
}

impl Limits {
    pub(crate) fn cache_bytes(&self) -> usize {
        self.cache_mib.saturating_mul(1 << 20)
    }

    pub(crate) fn interpreter(&self) -> InterpreterOptions {
        InterpreterOptions {
            script: ScriptOptions {
                time_limit: self.script_time_limit,
                threads: self.script_threads,
                slow_threads: self.slow_script_threads,
                ..ScriptOptions::default()
            },
            ..InterpreterOptions::default()
        }
    }
}
