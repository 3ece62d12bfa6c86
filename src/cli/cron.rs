//! `mainspring cron`: the occurrences of an expression, and the effect of daylight saving.

use std::io::{self, BufWriter, Write};

use chrono::{NaiveDateTime, SecondsFormat, Utc};
use serde_json::json;

use super::settings::{CronSettings, GapRule, OverlapRule};
use crate::harness::failure::Failure;
use crate::schedule::{ClockAdjustment, ClockChangeRules, Cron, Gap, Occurrence, OverlapTime, Zone};

pub(super) fn run(settings: &CronSettings) -> Result<(), Failure> {
    let cron = Cron::parse(&settings.expression)?;
    let zone = Zone::named(&settings.zone)?;
    let rules = ClockChangeRules {
        gap: match settings.gap {
            GapRule::EndOfGap => Gap::FireAtEnd,
            GapRule::Shift => Gap::Shift,
            GapRule::Skip => Gap::Skip,
        },
        overlap: match settings.overlap {
            OverlapRule::First => OverlapTime::First,
            OverlapRule::Second => OverlapTime::Second,
            OverlapRule::Both => OverlapTime::Both,
        },
    };
    let from = settings.from.unwrap_or_else(Utc::now);
    let mut out = BufWriter::new(io::stdout().lock());
    let mut found = 0;
    for occurrence in cron.occurrences(from, &zone, rules).take(settings.next) {
        found += 1;
        let line = line(occurrence, cron.is_interval(), settings.json);
        // The reader has closed the pipe.
        if writeln!(out, "{line}").is_err() {
            return Ok(());
        }
    }
    drop(out.flush());
    if found == 0 {
        return Err(Failure::failed(format!(
            "{cron} does not fire in {zone} after {from} up to the year 9999, by these rules"
        )));
    }
    Ok(())
}

fn line(occurrence: Occurrence, is_interval: bool, as_json: bool) -> String {
    let at = occurrence.at.to_rfc3339_opts(SecondsFormat::Secs, false);
    let utc = occurrence.at.with_timezone(&Utc);
    let utc = utc.to_rfc3339_opts(SecondsFormat::Secs, true);
    let adjustment = occurrence
        .adjustment
        .map(|adjustment| describe(adjustment, is_interval));
    if as_json {
        return json!({"at": at, "utc": utc, "note": adjustment}).to_string();
    }
    match adjustment {
        Some(adjustment) => format!("{at}  {utc}  {adjustment}"),
        None => format!("{at}  {utc}"),
    }
}

fn describe(adjustment: ClockAdjustment, is_interval: bool) -> String {
    let local = |at: NaiveDateTime| at.format("%H:%M:%S on %Y-%m-%d").to_string();
    match adjustment {
        ClockAdjustment::EndOfGap(at) => format!("{} does not exist: fires at the end of the gap", local(at)),
        ClockAdjustment::Shifted(at) => format!("{} does not exist: fires later by the length of the gap", local(at)),
        ClockAdjustment::Skipped(at) if is_interval => {
            format!("{} does not exist: the interval counts real time", local(at))
        }
        ClockAdjustment::Skipped(at) => format!("{} does not exist: skipped before this one", local(at)),
        ClockAdjustment::FirstOfTwo => "this local time occurs twice: the first".to_owned(),
        ClockAdjustment::SecondOfTwo => "this local time occurs twice: the second".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_is_exact() {
        let occurrence = |adjustment| Occurrence {
            at: "2026-03-29T03:00:00+02:00".parse().unwrap(),
            adjustment,
        };
        assert_eq!(
            line(occurrence(None), false, true),
            r#"{"at":"2026-03-29T03:00:00+02:00","utc":"2026-03-29T01:00:00Z","note":null}"#
        );
        let gap = ClockAdjustment::EndOfGap("2026-03-29T02:30:00".parse().unwrap());
        assert_eq!(
            line(occurrence(Some(gap)), false, false),
            "2026-03-29T03:00:00+02:00  2026-03-29T01:00:00Z  02:30:00 on 2026-03-29 does not exist: fires at the end of \
             the gap"
        );
    }
}
