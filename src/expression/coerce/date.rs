//! Points in time and dates, as text of ISO 8601 as .NET writes it.

use chrono::{FixedOffset, NaiveDateTime, Offset, Timelike, Utc};
use mainspring_language::{ReadDate, parse_date_text};
use serde_json::Value;

use super::{TypeMismatch, mismatch};

/// With an offset it is in UTC; without one it is a clock time, and has none.
pub(super) fn date_time(value: Value) -> Result<Value, TypeMismatch> {
    let read = read(&value, "a date and time (write it as \"2026-01-31T12:00:00Z\")")?;
    Ok(match read.offset {
        None => local(read.local).into(),
        Some(_) => format!("{}Z", local(read.or_utc().naive_utc())).into(),
    })
}

/// It keeps its offset; without one it is in UTC.
pub(super) fn date_time_offset(value: Value) -> Result<Value, TypeMismatch> {
    let read = read(
        &value,
        "a date and time with its offset (write it as \"2026-01-31T12:00:00+02:00\")",
    )?;
    let offset = read.offset.unwrap_or_else(|| Utc.fix());
    Ok(format!("{}{}", local(read.local), offset_text(offset)).into())
}

/// The time of a day is dropped.
pub(super) fn date_only(value: Value) -> Result<Value, TypeMismatch> {
    let read = read(&value, "a date (write it as \"2026-01-31\")")?;
    Ok(read.local.date().format("%Y-%m-%d").to_string().into())
}

fn read(value: &Value, wanted: &str) -> Result<ReadDate, TypeMismatch> {
    let read = value.as_str().and_then(|text| parse_date_text(text, Utc::now()));
    read.ok_or_else(|| mismatch(value, wanted))
}

/// The fraction has no zeros at its end, and at most seven digits.
fn local(at: NaiveDateTime) -> String {
    let ticks = at.nanosecond() % 1_000_000_000 / 100;
    let seconds = at.format("%Y-%m-%dT%H:%M:%S");
    if ticks == 0 {
        return seconds.to_string();
    }
    format!("{seconds}.{}", format!("{ticks:07}").trim_end_matches('0'))
}

fn offset_text(offset: FixedOffset) -> String {
    let minutes = offset.local_minus_utc() / 60;
    let sign = if minutes < 0 { '-' } else { '+' };
    format!("{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60)
}
