//! Settings of `serve` for programs that start nodes: `dev`, `demo` and `bench failover`.

use clap::Args;
use clap::builder::FalseyValueParser;

/// For programs that start nodes.
#[derive(Debug, Args)]
pub(crate) struct Child {
    /// Stop in good order when standard input ends, as it does when the program that started this one is gone
    #[arg(long, env = "MAINSPRING_STOP_WITH_STDIN", hide_env_values = true, value_parser = FalseyValueParser::new())]
    pub(crate) stop_with_stdin: bool,
    /// Know the activity Mainspring.Work, which is busy for a given time
    #[arg(long, env = "MAINSPRING_BENCH_ACTIVITIES", hide_env_values = true, value_parser = FalseyValueParser::new())]
    pub(crate) bench_activities: bool,
}
