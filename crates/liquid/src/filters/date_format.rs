//! .NET's formats of dates, in the invariant culture.

use chrono::{DateTime, Datelike, FixedOffset, Timelike, Utc};

use crate::budget::Builder;
use crate::error::TemplateFailure;

/// The formats of one letter.
const STANDARD: [(char, &str); 19] = [
    ('d', "MM/dd/yyyy"),
    ('D', "dddd, dd MMMM yyyy"),
    ('f', "dddd, dd MMMM yyyy HH:mm"),
    ('F', "dddd, dd MMMM yyyy HH:mm:ss"),
    ('g', "MM/dd/yyyy HH:mm"),
    ('G', "MM/dd/yyyy HH:mm:ss"),
    ('m', "MMMM dd"),
    ('M', "MMMM dd"),
    ('o', "yyyy-MM-ddTHH:mm:ss.fffffffzzz"),
    ('O', "yyyy-MM-ddTHH:mm:ss.fffffffzzz"),
    ('r', "ddd, dd MMM yyyy HH:mm:ss 'GMT'"),
    ('R', "ddd, dd MMM yyyy HH:mm:ss 'GMT'"),
    ('s', "yyyy-MM-ddTHH:mm:ss"),
    ('t', "HH:mm"),
    ('T', "HH:mm:ss"),
    ('u', "yyyy-MM-dd HH:mm:ss'Z'"),
    ('y', "yyyy MMMM"),
    ('Y', "yyyy MMMM"),
    ('U', ""),
];

/// Writes a date in a standard or a custom format.
pub(super) fn dotnet(
    date: &DateTime<FixedOffset>,
    format: &str,
    text: &mut Builder<'_, '_>,
) -> Result<(), TemplateFailure> {
    let unknown = || {
        TemplateFailure::invalid(format!(
            "the date format {} is unknown; use one such as yyyy-MM-dd",
            shown(format)
        ))
    };
    let mut characters = format.chars();
    match (characters.next(), characters.next()) {
        (None, _) => custom(date, "MM/dd/yyyy HH:mm:ss zzz", text),
        (Some(letter), None) => {
            let standard = STANDARD.iter().find(|(known, _)| *known == letter);
            let pattern = standard
                .map(|(_, pattern)| *pattern)
                .filter(|pattern| !pattern.is_empty());
            let pattern = pattern.ok_or_else(unknown)?;
            // These two are in UTC.
            if matches!(letter, 'r' | 'R' | 'u') {
                return custom(&date.with_timezone(&Utc).fixed_offset(), pattern, text);
            }
            custom(date, pattern, text)
        }
        _ => custom(date, format, text),
    }
}

fn shown(format: &str) -> String {
    format.chars().take(40).collect()
}

fn custom(date: &DateTime<FixedOffset>, format: &str, text: &mut Builder<'_, '_>) -> Result<(), TemplateFailure> {
    text.budget().spend_bytes(format.len())?;
    let mut rest = format;
    while let Some(first) = rest.chars().next() {
        let mut taken = first.len_utf8();
        match first {
            'd' | 'f' | 'F' | 'g' | 'h' | 'H' | 'K' | 'm' | 'M' | 's' | 't' | 'y' | 'z' => {
                taken = rest.chars().take_while(|c| *c == first).count();
                text.budget().spend(2)?;
                specifier(date, first, taken, text)?;
            }
            '\'' | '"' => {
                let Some((literal, _)) = rest.get(1..).and_then(|after| after.split_once(first)) else {
                    return Err(TemplateFailure::invalid(format!(
                        "the format {} has an open quote",
                        shown(format)
                    )));
                };
                text.push_str(literal)?;
                taken = literal.len() + 2;
            }
            '\\' => {
                let Some(literal) = rest.chars().nth(1) else {
                    return Err(TemplateFailure::invalid("the format ends with a backslash"));
                };
                text.push(literal)?;
                taken += literal.len_utf8();
            }
            // A fraction of nothing takes the point before it away.
            '.' if has_no_fraction(date, rest) => {}
            // Makes a custom format of one letter.
            '%' => {}
            literal => text.push(literal)?,
        }
        rest = rest.get(taken..).unwrap_or_default();
    }
    Ok(())
}

/// Whether `.FFF` is here, and there is no digit for it.
fn has_no_fraction(date: &DateTime<FixedOffset>, rest: &str) -> bool {
    let letters = rest.bytes().skip(1).take_while(|letter| *letter == b'F').count();
    let unit = u32::try_from(letters)
        .ok()
        .and_then(|letters| 10_u32.checked_pow(9_u32.checked_sub(letters)?));
    letters > 0 && unit.is_some_and(|unit| date.timestamp_subsec_nanos() / unit == 0)
}

fn specifier(
    date: &DateTime<FixedOffset>,
    letter: char,
    count: usize,
    text: &mut Builder<'_, '_>,
) -> Result<(), TemplateFailure> {
    let mut number = |value: i64, width: usize| {
        let digits = value.to_string();
        text.push_repeated('0', width.saturating_sub(digits.len()))?;
        text.push_str(&digits)
    };
    let two = count.min(2);
    let word = |format: &str| date.format(format).to_string();
    match (letter, count) {
        ('d', 1 | 2) => number(date.day().into(), two),
        ('d', 3) => text.push_str(&word("%a")),
        ('d', _) => text.push_str(&word("%A")),
        ('M', 1 | 2) => number(date.month().into(), two),
        ('M', 3) => text.push_str(&word("%b")),
        ('M', _) => text.push_str(&word("%B")),
        ('y', 1 | 2) => number(i64::from(date.year() % 100), two),
        ('y', count) => number(date.year().into(), count),
        ('h', _) => number(date.hour12().1.into(), two),
        ('H', _) => number(date.hour().into(), two),
        ('m', _) => number(date.minute().into(), two),
        ('s', _) => number(date.second().into(), two),
        ('t', 1) => text.push_str(word("%p").get(..1).unwrap_or_default()),
        ('t', _) => text.push_str(&word("%p")),
        ('g', _) => text.push_str("A.D."),
        ('f' | 'F', 1..=7) => {
            let ticks = format!("{:07}", date.timestamp_subsec_nanos() / 100);
            let digits = ticks.get(..count).unwrap_or_default();
            text.push_str(if letter == 'F' {
                digits.trim_end_matches('0')
            } else {
                digits
            })
        }
        ('f' | 'F', _) => Err(TemplateFailure::invalid(
            "a date format has at most seven digits for fractions of a second",
        )),
        ('z', 1) => text.push_str(&format!("{:+}", date.offset().local_minus_utc() / 3600)),
        ('z', 2) => text.push_str(word("%z").get(..3).unwrap_or_default()),
        // `K` and `zzz`.
        _ => text.push_str(&word("%:z")),
    }
}
