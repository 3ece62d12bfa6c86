//! Settings of `cron`.

use chrono::{DateTime, Utc};
use clap::builder::FalseyValueParser;
use clap::{Args, ValueEnum};

use crate::harness::arguments::count;

/// Settings of `cron`.
#[derive(Debug, Args)]
pub(crate) struct Cron {
    /// Five fields (minute, hour, day of month, month, day of week), six with the second first, or a macro as @daily
    #[arg(value_name = "EXPR")]
    pub(crate) expression: String,
    /// The time zone, by its IANA name
    #[arg(
        long,
        value_name = "ZONE",
        env = "MAINSPRING_ZONE",
        hide_env_values = true,
        default_value = "UTC"
    )]
    pub(crate) zone: String,
    /// How many occurrences
    #[arg(long, value_name = "COUNT", env = "MAINSPRING_NEXT", hide_env_values = true, default_value = "10", value_parser = count)]
    pub(crate) next: usize,
    /// Only what is later than this, as 2026-03-28T00:00:00Z; now unless given
    #[arg(long, value_name = "RFC3339", env = "MAINSPRING_FROM", hide_env_values = true, value_parser = instant)]
    pub(crate) from: Option<DateTime<Utc>>,
    /// What becomes of a local time that a clock change leaves out
    #[arg(
        long,
        value_name = "RULE",
        env = "MAINSPRING_GAP",
        hide_env_values = true,
        default_value = "end-of-gap",
        ignore_case = true
    )]
    pub(crate) gap: GapRule,
    /// Which of two equal local times is meant
    #[arg(
        long,
        value_name = "RULE",
        env = "MAINSPRING_OVERLAP",
        hide_env_values = true,
        default_value = "first",
        ignore_case = true
    )]
    pub(crate) overlap: OverlapRule,
    /// Print {at, utc, note}, one a line
    #[arg(long, env = "MAINSPRING_JSON", hide_env_values = true, value_parser = FalseyValueParser::new())]
    pub(crate) json: bool,
}

/// What becomes of a local time that a clock change leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GapRule {
    #[value(alias = "EndOfGap")]
    EndOfGap,
    Shift,
    Skip,
}

/// Which of two equal local times is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OverlapRule {
    First,
    Second,
    Both,
}

fn instant(text: &str) -> Result<DateTime<Utc>, String> {
    let at = DateTime::parse_from_rfc3339(text).map(|at| at.with_timezone(&Utc));
    let at =
        at.map_err(|_| "give a time with its offset, as 2026-03-28T00:00:00Z or 2026-03-28T00:00:00+01:00".to_owned())?;
    if at < DateTime::UNIX_EPOCH {
        return Err("nothing is planned before 1970".to_owned());
    }
    Ok(at)
}
