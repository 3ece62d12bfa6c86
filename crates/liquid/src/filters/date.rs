//! Filters for dates. A date without an offset is in UTC: the result must not depend on a node's time zone.

use chrono::{DateTime, Datelike, FixedOffset, Offset, Timelike, Utc};

use super::date_format::dotnet;
use super::date_text::parse;
use super::text::{lower, upper};
use super::windows_zones::iana_name;
use super::{Call, Filter, Filtered, filter};
use crate::budget::Builder;
use crate::error::TemplateFailure;
use crate::value::Value;
use mainspring_language::{Decimal, ReadDate};

pub(super) static FILTERS: [Filter; 3] = [
    filter("date", |call| {
        let Some(date) = date_of(&call)? else {
            return Ok(Value::Nil);
        };
        if call.argument(0).is_nil() {
            return Ok(Value::Date(date));
        }
        let format = call.argument_text(0)?;
        let mut text = call.builder();
        strftime(&date, &format, &mut text, 0)?;
        call.made(text)
    }),
    filter("format_date", |call| {
        let Some(date) = date_of(&call)?.filter(|_| !call.argument(0).is_nil()) else {
            return Ok(Value::Nil);
        };
        super::format::invariant_culture(call.given(1), call.budget)?;
        let format = call.argument_text(0)?;
        let mut text = call.builder();
        dotnet(&date, &format, &mut text)?;
        call.made(text)
    }),
    filter("time_zone", time_zone),
];

/// A value as a date: a date, the seconds since 1970, or a text.
fn date_of(call: &Call<'_, '_>) -> Result<Option<DateTime<FixedOffset>>, TemplateFailure> {
    Ok(match call.input.bare() {
        Value::Date(date) => Some(*date),
        Value::Number(seconds) => {
            let milliseconds = seconds.multiply(1000_i64.into()).and_then(Decimal::to_i64);
            let date = milliseconds.and_then(DateTime::from_timestamp_millis);
            let date = date.filter(|date| (1..=9999).contains(&date.year()));
            let date = date.ok_or_else(|| {
                TemplateFailure::invalid(format!(
                    "{seconds} seconds after 1970 are no date; dates end with the year 9999"
                ))
            });
            Some(date?.fixed_offset())
        }
        Value::Text(text) => match &**text {
            "now" | "today" => Some(DateTime::<Utc>::from(call.data.now()).fixed_offset()),
            text => {
                call.budget.spend_bytes(text.len())?;
                parse(text, call.data.now().into()).map(ReadDate::or_utc)
            }
        },
        _ => None,
    })
}

/// The same time elsewhere; in a zone that is unknown, as it is.
fn time_zone<'a>(call: Call<'a, '_>) -> Filtered<'a> {
    let Some(date) = date_of(&call)?.filter(|_| !call.argument(0).is_nil()) else {
        return Ok(Value::Nil);
    };
    let name = call.argument_text(0)?;
    if name.eq_ignore_ascii_case("local") || name.eq_ignore_ascii_case("utc") {
        return Ok(Value::Date(date.with_timezone(&Utc.fix())));
    }
    call.budget.spend(4)?;
    let Ok(zone) = jiff::tz::TimeZone::get(iana_name(&name).unwrap_or(&name)) else {
        return Ok(Value::Date(date));
    };
    let offset = jiff::Timestamp::from_second(date.timestamp())
        .ok()
        .and_then(|at| FixedOffset::east_opt(zone.to_offset(at).seconds()));
    Ok(Value::Date(offset.map_or(date, |offset| date.with_timezone(&offset))))
}

/// The flags of a directive.
#[derive(Default)]
struct Flags {
    is_upper: bool,
    has_no_padding: bool,
    pads_with_space: bool,
    has_colon: bool,
    width: Option<usize>,
}

impl Flags {
    fn number(&self, value: i64, width: usize, text: &mut Builder<'_, '_>) -> Result<(), TemplateFailure> {
        let digits = value.to_string();
        if self.has_no_padding {
            return text.push_str(digits.trim_start_matches('0'));
        }
        let fill = if self.pads_with_space { ' ' } else { '0' };
        text.push_repeated(fill, self.width.unwrap_or(width).saturating_sub(digits.len()))?;
        text.push_str(&digits)
    }

    fn word(&self, word: &str, text: &mut Builder<'_, '_>) -> Result<(), TemplateFailure> {
        if !self.is_upper {
            return text.push_str(word);
        }
        word.chars().try_for_each(|c| text.push(upper(c)))
    }
}

/// The directives that stand for others.
const COMPOSED: [(char, &str); 8] = [
    ('D', "%m/%d/%y"),
    ('F', "%Y-%m-%d"),
    ('h', "%b"),
    ('r', "%I:%M:%S %p"),
    ('R', "%H:%M"),
    ('T', "%H:%M:%S"),
    ('v', "%e-%b-%Y"),
    ('+', "%a %b %e %H:%M:%S %Z %Y"),
];

/// Ruby's directives, as Fluid has them.
fn strftime(
    date: &DateTime<FixedOffset>,
    format: &str,
    text: &mut Builder<'_, '_>,
    depth: u8,
) -> Result<(), TemplateFailure> {
    text.budget().spend_bytes(format.len())?;
    let mut flags: Option<Flags> = None;
    for c in format.chars() {
        let Some(current) = &mut flags else {
            if c == '%' {
                flags = Some(Flags::default());
            } else {
                text.push(c)?;
            }
            continue;
        };
        match c {
            '^' => current.is_upper = true,
            '-' => current.has_no_padding = true,
            '_' => current.pads_with_space = true,
            ':' => current.has_colon = true,
            '0'..='9' => {
                let digit = usize::try_from(u32::from(c) - u32::from('0')).unwrap_or(0);
                current.width = Some(current.width.unwrap_or(0).saturating_mul(10).saturating_add(digit));
            }
            c => {
                text.budget().spend(2)?;
                if let Some((_, composed)) = COMPOSED.iter().find(|(known, _)| *known == c).filter(|_| depth == 0) {
                    let mut part = Builder::new(text.budget());
                    strftime(date, composed, &mut part, 1)?;
                    current.is_upper &= c != 'h';
                    current.word(part.as_str(), text)?;
                } else {
                    directive(date, c, current, text)?;
                }
                flags = None;
            }
        }
    }
    Ok(())
}

fn directive(
    date: &DateTime<FixedOffset>,
    directive: char,
    flags: &mut Flags,
    text: &mut Builder<'_, '_>,
) -> Result<(), TemplateFailure> {
    let shown = |format: &str| date.format(format).to_string();
    let whole = |format: &str| date.format(format).to_string().parse::<i64>().unwrap_or(0);
    let week_year = || i64::from(date.year()) - i64::from(date.month() == 1 && whole("%W") == 0);
    let (_, hour12) = date.hour12();
    let nanoseconds = date.timestamp_subsec_nanos();
    match directive {
        'a' | 'A' | 'b' | 'B' => flags.word(&shown(&format!("%{directive}")), text),
        'c' => flags.word(&shown("%A, %d %B %Y %H:%M:%S"), text),
        'x' => text.push_str(&shown("%m/%d/%Y")),
        'X' | 'R' => text.push_str(&shown("%H:%M")),
        'C' => flags.number(i64::from(date.year() / 100), 2, text),
        'd' => flags.number(date.day().into(), 2, text),
        'e' => {
            flags.pads_with_space = true;
            flags.number(date.day().into(), 2, text)
        }
        'g' => flags.number(week_year() % 100, 0, text),
        'G' => flags.number(week_year(), 0, text),
        'h' => text.push_str(&shown("%b")),
        'H' => text.push_str(&shown("%H")),
        'I' => flags.number(hour12.into(), 2, text),
        'j' => flags.number(date.ordinal().into(), 3, text),
        'k' => text.push_str(&date.hour().to_string()),
        'l' => {
            flags.pads_with_space = true;
            flags.number(hour12.into(), 2, text)
        }
        'L' => flags.number((nanoseconds / 1_000_000).into(), 3, text),
        'm' => flags.number(date.month().into(), 2, text),
        'M' => flags.number(date.minute().into(), 2, text),
        'n' => text.push_repeated('\n', flags.width.unwrap_or(1)),
        't' => text.push_repeated('\t', flags.width.unwrap_or(1)),
        'N' => {
            let width = flags.width.unwrap_or(9);
            let ticks = (nanoseconds / 100).to_string();
            text.push_str(ticks.get(..width).unwrap_or(&ticks))?;
            text.push_repeated('0', width.saturating_sub(ticks.len()))
        }
        'p' => text.push_str(&shown("%p")),
        'P' => shown("%p").chars().try_for_each(|c| text.push(lower(c))),
        's' => flags.number(date.timestamp(), 0, text),
        'S' => flags.number(date.second().into(), 2, text),
        'u' => text.push_str(&date.weekday().number_from_monday().to_string()),
        'U' => flags.number(whole("%U"), 2, text),
        'V' => flags.number(i64::from(date.ordinal() / 7 + 1), 2, text),
        'w' => text.push_str(&date.weekday().num_days_from_sunday().to_string()),
        'W' => flags.number(whole("%W"), 2, text),
        'y' => flags.number(i64::from(date.year() % 100), 2, text),
        'Y' => flags.number(date.year().into(), 4, text),
        'z' if !flags.has_colon => text.push_str(&shown("%z")),
        'z' | 'Z' => text.push_str(&shown("%:z")),
        '%' => text.push('%'),
        other => {
            text.push('%')?;
            text.push(other)
        }
    }
}
