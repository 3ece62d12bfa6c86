//! Settings of `cron`.

use chrono::{DateTime, Utc};
use clap::{Args, ValueEnum};

use crate::harness::settings::count;

/// Settings of `cron`.
#[derive(Debug, Args)]
pub(crate) struct CronSettings {
    /// Five fields (minute, hour, day of month, month, day of week), six with the second first, or a macro such as @daily
    #[arg(value_name = "EXPR")]
    pub(crate) expression: String,
    /// The time zone, by its IANA name
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    pub(crate) zone: String,
    /// The number of occurrences
    #[arg(long, value_name = "COUNT", default_value = "10", value_parser = count)]
    pub(crate) next: usize,
    /// Only occurrences after this time, such as 2026-03-28T00:00:00Z; now by default
    #[arg(long, value_name = "RFC3339", value_parser = instant)]
    pub(crate) from: Option<DateTime<Utc>>,
    /// When to fire a local time that a clock change skips
    #[arg(long, value_name = "RULE", default_value = "end-of-gap", ignore_case = true)]
    pub(crate) gap: GapRule,
    /// Which occurrence of a repeated local time fires
    #[arg(long, value_name = "RULE", default_value = "first", ignore_case = true)]
    pub(crate) overlap: OverlapRule,
    /// Print {at, utc, note}, one per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// When to fire a local time that a clock change skips.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GapRule {
    #[value(alias = "EndOfGap")]
    EndOfGap,
    Shift,
    Skip,
}

/// Which occurrence of a repeated local time fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OverlapRule {
    First,
    Second,
    Both,
}

fn instant(text: &str) -> Result<DateTime<Utc>, String> {
    let at = DateTime::parse_from_rfc3339(text).map(|at| at.with_timezone(&Utc));
    let at = at.map_err(|_| {
        "give a time with its offset, such as 2026-03-28T00:00:00Z or 2026-03-28T00:00:00+01:00".to_owned()
    })?;
    if at < DateTime::UNIX_EPOCH {
        return Err("no occurrence is calculated before 1970".to_owned());
    }
    Ok(at)
}
