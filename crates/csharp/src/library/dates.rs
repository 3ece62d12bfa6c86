//! Members of `DateTime`, `DateTimeOffset` and `TimeSpan`.

use super::arguments::Arguments;
use super::parsing::{parsed, type_of};
use crate::date_time::{
    DateKind, DateTime, DateTimeOffset, MOST_TICKS, TICKS_PER_DAY, TICKS_PER_HOUR, TICKS_PER_MILLISECOND,
    TICKS_PER_MINUTE, TICKS_PER_SECOND, UNIX_TICKS, add_months, clock, date_ticks, days_in_month, in_range,
};
use crate::format;
use crate::problem::{Evaluated, Stop};
use crate::run::rounded_ticks;
use crate::text::formatted;
use crate::types::EnumKind;
use crate::value::Value;

fn out_of_range() -> Box<Stop> {
    Stop::thrown(
        "ArgumentOutOfRangeException",
        "the date is not within the years 1 to 9999",
    )
}

fn too_long() -> Box<Stop> {
    Stop::thrown("OverflowException", "the TimeSpan is too long")
}

fn int(number: i64) -> Value {
    Value::Int(i32::try_from(number).unwrap_or(0))
}

/// A property; `None` if none has that name.
pub(super) fn property(target: &Value, name: &str) -> Option<Value> {
    match target {
        Value::Date(date) => match name {
            "Date" => Some(Value::Date(DateTime {
                ticks: date.ticks - date.ticks.rem_euclid(TICKS_PER_DAY),
                kind: date.kind,
            })),
            "Kind" => Some(Value::Enum(
                EnumKind::DateTimeKind,
                match date.kind {
                    DateKind::Unspecified => 0,
                    DateKind::Utc => 1,
                    DateKind::Local => 2,
                },
            )),
            _ => clock_property(date.ticks, name),
        },
        Value::Offset(at) => {
            let plain = |ticks: i64, kind: DateKind| Some(Value::Date(DateTime { ticks, kind }));
            match name {
                "Date" => plain(at.ticks - at.ticks.rem_euclid(TICKS_PER_DAY), DateKind::Unspecified),
                "DateTime" => plain(at.ticks, DateKind::Unspecified),
                "UtcDateTime" => plain(at.utc_ticks(), DateKind::Utc),
                "LocalDateTime" => plain(at.utc_ticks(), DateKind::Local),
                "Offset" => Some(Value::Span(i64::from(at.minutes) * TICKS_PER_MINUTE)),
                "UtcTicks" => Some(Value::Long(at.utc_ticks())),
                _ => clock_property(at.ticks, name),
            }
        }
        Value::Span(ticks) => span_property(*ticks, name),
        _ => None,
    }
}

fn clock_property(ticks: i64, name: &str) -> Option<Value> {
    let at = clock(ticks);
    Some(match name {
        "Year" => Value::Int(at.year),
        "Month" => int(i64::from(at.month)),
        "Day" => int(i64::from(at.day)),
        "Hour" => int(at.hour),
        "Minute" => int(at.minute),
        "Second" => int(at.second),
        "Millisecond" => int(at.fraction / TICKS_PER_MILLISECOND),
        "Ticks" => Value::Long(ticks),
        "DayOfWeek" => Value::Enum(EnumKind::DayOfWeek, i32::try_from(at.weekday).unwrap_or(0)),
        "DayOfYear" => int(i64::from(at.day_of_year)),
        "TimeOfDay" => Value::Span(ticks.rem_euclid(TICKS_PER_DAY)),
        _ => return None,
    })
}

fn span_property(ticks: i64, name: &str) -> Option<Value> {
    let total = |unit: i64| Value::Double(ticks as f64 / unit as f64);
    Some(match name {
        "Days" => int(ticks / TICKS_PER_DAY),
        "Hours" => int(ticks / TICKS_PER_HOUR % 24),
        "Minutes" => int(ticks / TICKS_PER_MINUTE % 60),
        "Seconds" => int(ticks / TICKS_PER_SECOND % 60),
        "Milliseconds" => int(ticks / TICKS_PER_MILLISECOND % 1000),
        "Ticks" => Value::Long(ticks),
        "TotalDays" => total(TICKS_PER_DAY),
        "TotalHours" => total(TICKS_PER_HOUR),
        "TotalMinutes" => total(TICKS_PER_MINUTE),
        "TotalSeconds" => total(TICKS_PER_SECOND),
        "TotalMilliseconds" => total(TICKS_PER_MILLISECOND),
        _ => return None,
    })
}

/// The same point in time with other ticks.
fn moved(target: &Value, ticks: Option<i64>) -> Evaluated<Value> {
    let ticks = in_range(ticks).ok_or_else(out_of_range)?;
    Ok(match target {
        Value::Offset(at) => Value::Offset(DateTimeOffset {
            ticks,
            minutes: at.minutes,
        }),
        Value::Date(date) => Value::Date(DateTime { ticks, kind: date.kind }),
        other => other.clone(),
    })
}

fn ticks_of(amount: f64, unit: i64) -> Option<i64> {
    rounded_ticks(amount * unit as f64)
}

pub(super) fn call(target: &Value, name: &str, arguments: &Arguments<'_, '_>) -> Evaluated<Option<Value>> {
    if let Value::Span(ticks) = target {
        return of_span(*ticks, name, arguments);
    }
    let ticks = match target {
        Value::Date(date) => date.ticks,
        Value::Offset(at) => at.ticks,
        _ => return Ok(None),
    };
    let add = |unit: i64| -> Evaluated<Option<Value>> {
        let change = ticks_of(arguments.double(0)?, unit);
        moved(target, change.and_then(|change| ticks.checked_add(change))).map(Some)
    };
    match name {
        "AddDays" => return add(TICKS_PER_DAY),
        "AddHours" => return add(TICKS_PER_HOUR),
        "AddMinutes" => return add(TICKS_PER_MINUTE),
        "AddSeconds" => return add(TICKS_PER_SECOND),
        "AddMilliseconds" => return add(TICKS_PER_MILLISECOND),
        "AddTicks" => return moved(target, ticks.checked_add(arguments.long(0)?)).map(Some),
        "AddMonths" => return moved(target, add_months(ticks, arguments.long(0)?)).map(Some),
        "AddYears" => {
            let months = arguments.long(0)?.checked_mul(12);
            return moved(target, months.and_then(|months| add_months(ticks, months))).map(Some);
        }
        "Add" => return moved(target, ticks.checked_add(arguments.span(0)?)).map(Some),
        "Subtract" => {
            let utc = |value: &Value| match value {
                Value::Offset(at) => at.utc_ticks(),
                Value::Date(date) => date.ticks,
                _ => 0,
            };
            return Ok(Some(match arguments.value(0)? {
                Value::Span(span) => moved(target, ticks.checked_sub(*span))?,
                other @ (Value::Date(_) | Value::Offset(_)) => Value::Span(utc(target) - utc(other)),
                other => {
                    let message = format!("Subtract does not take {}", other.type_name());
                    return Err(Stop::thrown("ArgumentException", message));
                }
            }));
        }
        _ => {}
    }
    match target {
        Value::Date(date) => of_date(*date, name),
        Value::Offset(at) => of_offset(*at, name, arguments),
        _ => Ok(None),
    }
}

fn of_date(date: DateTime, name: &str) -> Evaluated<Option<Value>> {
    let of_kind = |kind: DateKind| {
        Value::Date(DateTime {
            ticks: date.ticks,
            kind,
        })
    };
    let written = |pattern: &str| formatted(&Value::Date(date), pattern).map(|text| Some(Value::Text(text)));
    match name {
        // The local time is UTC.
        "ToUniversalTime" => Ok(Some(of_kind(DateKind::Utc))),
        "ToLocalTime" => Ok(Some(of_kind(DateKind::Local))),
        "ToShortDateString" => written("d"),
        "ToLongDateString" => written("D"),
        "ToShortTimeString" => written("t"),
        "ToLongTimeString" => written("T"),
        _ => Ok(None),
    }
}

fn of_offset(at: DateTimeOffset, name: &str, arguments: &Arguments<'_, '_>) -> Evaluated<Option<Value>> {
    let utc = at.utc_ticks();
    let at_offset = |minutes: i32| -> Evaluated<Value> {
        let ticks = in_range(utc.checked_add(i64::from(minutes) * TICKS_PER_MINUTE)).ok_or_else(out_of_range)?;
        Ok(Value::Offset(DateTimeOffset { ticks, minutes }))
    };
    Ok(Some(match name {
        "ToUniversalTime" | "ToLocalTime" => at_offset(0)?,
        "ToOffset" => {
            let minutes = i32::try_from(arguments.span(0)? / TICKS_PER_MINUTE)
                .ok()
                .filter(|minutes| minutes.unsigned_abs() <= 14 * 60);
            at_offset(minutes.ok_or_else(out_of_range)?)?
        }
        "ToUnixTimeSeconds" => Value::Long((utc - UNIX_TICKS).div_euclid(TICKS_PER_SECOND)),
        "ToUnixTimeMilliseconds" => Value::Long((utc - UNIX_TICKS).div_euclid(TICKS_PER_MILLISECOND)),
        _ => return Ok(None),
    }))
}

fn of_span(ticks: i64, name: &str, arguments: &Arguments<'_, '_>) -> Evaluated<Option<Value>> {
    let result = match name {
        "Add" => ticks.checked_add(arguments.span(0)?),
        "Subtract" => ticks.checked_sub(arguments.span(0)?),
        "Negate" => ticks.checked_neg(),
        "Duration" => ticks.checked_abs(),
        "Multiply" => rounded_ticks(ticks as f64 * arguments.double(0)?),
        "Divide" => match arguments.value(0)? {
            Value::Span(other) => return Ok(Some(Value::Double(ticks as f64 / *other as f64))),
            _ => rounded_ticks(ticks as f64 / arguments.double(0)?),
        },
        _ => return Ok(None),
    };
    Ok(Some(Value::Span(result.ok_or_else(too_long)?)))
}

/// A date by a format; `None` if the text has another form.
pub(super) fn parse_exact(text: &str, pattern: &str) -> Option<Value> {
    format::parse_exact(text, pattern)?.date_time().map(Value::Date)
}

pub(super) fn call_static(owner: &str, name: &str, arguments: &Arguments<'_, '_>) -> Evaluated<Option<Value>> {
    let from = |unit: i64| -> Evaluated<Option<Value>> {
        let ticks = ticks_of(arguments.double(0)?, unit).ok_or_else(too_long)?;
        Ok(Some(Value::Span(ticks)))
    };
    match name {
        "Parse" => return parsed(&type_of(owner), arguments).map(Some),
        "FromDays" => return from(TICKS_PER_DAY),
        "FromHours" => return from(TICKS_PER_HOUR),
        "FromMinutes" => return from(TICKS_PER_MINUTE),
        "FromSeconds" => return from(TICKS_PER_SECOND),
        "FromMilliseconds" => return from(TICKS_PER_MILLISECOND),
        _ => {}
    }
    Ok(Some(match name {
        "FromTicks" => Value::Span(arguments.long(0)?),
        "ParseExact" => {
            let (text, pattern) = (arguments.text(0)?, arguments.text(1)?);
            parse_exact(&text, &pattern).ok_or_else(|| {
                let short = |text: &str| text.chars().take(60).collect::<String>();
                let (shown, form) = (short(&text), short(&pattern));
                Stop::thrown("FormatException", format!("{shown:?} does not have the form {form:?}"))
            })?
        }
        "DaysInMonth" => {
            let days = days_in_month(arguments.long(0)?, arguments.long(1)?);
            int(days.ok_or_else(out_of_range)?)
        }
        "IsLeapYear" => Value::Bool(date_ticks(arguments.long(0)?, 2, 29).is_some()),
        "SpecifyKind" => {
            let (Value::Date(date), Value::Enum(_, kind)) = (arguments.value(0)?, arguments.value(1)?) else {
                return Err(Stop::thrown(
                    "ArgumentException",
                    "SpecifyKind takes a DateTime and a DateTimeKind",
                ));
            };
            let kind = match kind {
                1 => DateKind::Utc,
                2 => DateKind::Local,
                _ => DateKind::Unspecified,
            };
            Value::Date(DateTime {
                ticks: date.ticks,
                kind,
            })
        }
        "Compare" => {
            let order = arguments.value(0)?.order(arguments.value(1)?);
            let order = order.ok_or_else(|| Stop::thrown("ArgumentException", "these values have no order"))?;
            Value::Int(order as i32)
        }
        "FromUnixTimeSeconds" | "FromUnixTimeMilliseconds" => {
            let unit = if name.ends_with("Milliseconds") {
                TICKS_PER_MILLISECOND
            } else {
                TICKS_PER_SECOND
            };
            let ticks = arguments
                .long(0)?
                .checked_mul(unit)
                .and_then(|ticks| ticks.checked_add(UNIX_TICKS));
            let ticks = ticks
                .filter(|ticks| (0..=MOST_TICKS).contains(ticks))
                .ok_or_else(out_of_range)?;
            Value::Offset(DateTimeOffset { ticks, minutes: 0 })
        }
        _ => return Ok(None),
    }))
}
