//! The filters `format_number` and `format_string`: .NET's formats of numbers, in the invariant culture.

use super::date_format::dotnet;
use super::{Call, Filter, Filtered, filter};
use crate::budget::{Builder, TemplateBudget};
use crate::error::TemplateFailure;
use crate::value::Value;
use mainspring_language::{Decimal, Rounding};

/// The most digits that a format may ask for.
const MOST_DIGITS: usize = 28;

pub(super) static FILTERS: [Filter; 2] = [
    filter("format_number", |call| {
        if call.argument(0).is_nil() {
            return Ok(Value::Nil);
        }
        invariant_culture(call.given(1), call.budget)?;
        let format = call.argument_text(0)?;
        let mut text = call.builder();
        number(call.input.number(call.budget)?, &format, &mut text)?;
        call.made(text)
    }),
    filter("format_string", format_string),
];

/// Refuses every culture but the invariant one.
pub(super) fn invariant_culture(
    culture: Option<&Value<'_>>,
    budget: &TemplateBudget<'_>,
) -> Result<(), TemplateFailure> {
    let Some(culture) = culture.filter(|culture| !culture.is_nil()) else {
        return Ok(());
    };
    let name = culture.text(budget)?;
    if name.is_empty() {
        return Ok(());
    }
    let name: String = name.chars().take(40).collect();
    Err(TemplateFailure::invalid(format!(
        "the culture {name} is not known; templates format in the invariant culture, so leave it out"
    )))
}

/// `{0}`, `{0,8}` and `{0:format}`, with the arguments of the filter.
fn format_string<'a>(call: Call<'a, '_>) -> Filtered<'a> {
    if call.input.is_nil() {
        return Ok(Value::Nil);
    }
    invariant_culture(call.named("culture"), call.budget)?;
    let format = call.text()?;
    let mut text = call.builder();
    let mut rest = &*format;
    while let Some(at) = rest.find(['{', '}']) {
        call.budget.spend(1)?;
        let (before, after) = rest.split_at_checked(at).unwrap_or((rest, ""));
        text.push_str(before)?;
        if let Some(doubled) = after.strip_prefix("{{") {
            text.push('{')?;
            rest = doubled;
            continue;
        }
        if let Some(doubled) = after.strip_prefix("}}") {
            text.push('}')?;
            rest = doubled;
            continue;
        }
        let item = after.strip_prefix('{').and_then(|after| after.split_once('}'));
        let Some((item, after)) = item else {
            let message = "a brace is not closed; write {0} for the first argument, and {{ for a brace";
            return Err(TemplateFailure::invalid(message));
        };
        write_item(&call, item, &mut text)?;
        rest = after;
    }
    text.push_str(rest)?;
    call.made(text)
}

fn write_item(call: &Call<'_, '_>, item: &str, text: &mut Builder<'_, '_>) -> Result<(), TemplateFailure> {
    let (place, format) = item.split_once(':').unwrap_or((item, ""));
    let (place, width) = place.split_once(',').unwrap_or((place, "0"));
    let value = place.trim().parse::<usize>().ok().and_then(|place| call.given(place));
    let (Some(value), Ok(width)) = (value, width.trim().parse::<i32>()) else {
        let shown: String = item.chars().take(40).collect();
        return Err(TemplateFailure::invalid(format!(
            "there is no argument for {{{shown}}}; give the filter one more"
        )));
    };
    let mut shown = call.builder();
    match value.bare() {
        Value::Number(value) => number(*value, format, &mut shown)?,
        Value::Date(date) => dotnet(date, format, &mut shown)?,
        Value::Boolean(flag) => shown.push_str(if *flag { "True" } else { "False" })?,
        value => shown.push_str(&value.text(call.budget)?)?,
    }
    let missing = usize::try_from(width.unsigned_abs()).unwrap_or(0);
    let missing = missing.saturating_sub(shown.as_str().encode_utf16().count());
    if width > 0 {
        text.push_repeated(' ', missing)?;
    }
    text.push_str(shown.as_str())?;
    if width < 0 {
        text.push_repeated(' ', missing)?;
    }
    Ok(())
}

/// Writes a number in a standard or a custom format.
fn number(value: Decimal, format: &str, text: &mut Builder<'_, '_>) -> Result<(), TemplateFailure> {
    text.budget().spend_bytes(format.len())?;
    let mut characters = format.chars();
    let Some(letter) = characters.next() else {
        return text.push_str(&value.to_string());
    };
    let digits = characters.as_str();
    if !letter.is_ascii_alphabetic() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return custom(value, format, text);
    }
    let given = if digits.is_empty() {
        None
    } else {
        digits.parse::<usize>().ok()
    };
    if !digits.is_empty() && given.is_none_or(|given| given > MOST_DIGITS) {
        return Err(TemplateFailure::invalid(format!(
            "a number has at most {MOST_DIGITS} decimals"
        )));
    }
    let sign = if value.is_negative() { "-" } else { "" };
    match letter.to_ascii_uppercase() {
        'C' => {
            let amount = fixed(value.abs(), given.unwrap_or(2), true);
            text.push_str(&if sign.is_empty() {
                format!("¤{amount}")
            } else {
                format!("(¤{amount})")
            })
        }
        'F' => text.push_str(&format!("{sign}{}", fixed(value.abs(), given.unwrap_or(2), false))),
        'N' => text.push_str(&format!("{sign}{}", fixed(value.abs(), given.unwrap_or(2), true))),
        'P' => {
            let hundred = value.abs().multiply(100_i64.into());
            let hundred =
                hundred.ok_or_else(|| TemplateFailure::invalid("the number is too large for a percentage"))?;
            text.push_str(&format!("{sign}{} %", fixed(hundred, given.unwrap_or(2), true)))
        }
        'G' if given.is_none_or(|given| given == 0) => text.push_str(&value.to_string()),
        'G' => {
            let digits = u32::try_from(given.unwrap_or(MOST_DIGITS)).unwrap_or(0);
            let rounded = significant(value, digits).unwrap_or(value);
            text.push_str(&rounded.without_zeros().to_string())
        }
        _ => Err(TemplateFailure::invalid(format!(
            "the number format {} is unknown; use C, F, G, N or P with the number of decimals, or one such as #,##0.00",
            format.chars().take(40).collect::<String>()
        ))),
    }
}

/// A number with so many significant digits; half goes away from zero.
fn significant(value: Decimal, digits: u32) -> Option<Decimal> {
    let (all, scale) = value.parts();
    let count = u32::try_from(all.to_string().len()).ok()?;
    let cut = count.saturating_sub(digits);
    match scale.checked_sub(cut) {
        Some(places) => Some(value.round(places, Rounding::HalfAway)),
        None => {
            let unit = Decimal::parse_exponent(&format!("1e{}", cut - scale))?;
            value.divide(unit)?.round(0, Rounding::HalfAway).multiply(unit)
        }
    }
}

/// A positive number with so many decimals; half goes away from zero.
fn fixed(value: Decimal, decimals: usize, has_groups: bool) -> String {
    let places = u32::try_from(decimals).unwrap_or(0);
    let rounded = value.round(places, Rounding::HalfAway);
    let plain = rounded.to_string();
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    let mut text = if has_groups { grouped(whole) } else { whole.to_owned() };
    if decimals > 0 {
        text.push('.');
        text.push_str(&format!("{fraction:0<decimals$}"));
    }
    text
}

fn grouped(digits: &str) -> String {
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// What a custom format says, of one of its sections.
#[derive(Default)]
struct Pattern {
    prefix: String,
    suffix: String,
    /// Digits that are always written: before and after the point.
    whole: usize,
    fraction: usize,
    most_fraction: usize,
    has_groups: bool,
    /// Powers of ten by which the number is multiplied.
    scale: u32,
    thousands: usize,
    has_digits: bool,
}

/// `0`, `#`, a point, commas, `%`, and texts; after a semicolon the format of negative numbers, after two that of zero.
fn custom(value: Decimal, format: &str, text: &mut Builder<'_, '_>) -> Result<(), TemplateFailure> {
    let sections: Vec<&str> = format.splitn(3, ';').collect();
    let section = |place: usize| sections.get(place).copied().filter(|section| !section.is_empty());
    let negative = section(1).filter(|_| value.is_negative());
    let zero = section(2).filter(|_| value.is_zero());
    let pattern = pattern(negative.or(zero).or_else(|| section(0)).unwrap_or_default())?;
    let mut number = value.abs();
    // Any number but 0 soon is too large or 0.
    for _ in 0..pattern.scale {
        if number.is_zero() {
            break;
        }
        let scaled = number.multiply(100_i64.into());
        number = scaled.ok_or_else(|| TemplateFailure::invalid("the number is too large for a percentage"))?;
    }
    for _ in 0..pattern.thousands {
        if number.is_zero() {
            break;
        }
        number = number.divide(1000_i64.into()).unwrap_or_default();
    }
    let places = u32::try_from(pattern.most_fraction).unwrap_or(0);
    let rounded = number.round(places, Rounding::HalfAway);
    if value.is_negative() && !rounded.is_zero() && negative.is_none() {
        text.push('-')?;
    }
    text.push_str(&pattern.prefix)?;
    if pattern.has_digits {
        let plain = rounded.to_string();
        let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
        let whole = whole.trim_start_matches('0');
        let whole = format!("{whole:0>width$}", width = pattern.whole);
        text.push_str(&if pattern.has_groups { grouped(&whole) } else { whole })?;
        let fraction = fraction.trim_end_matches('0');
        let fraction = format!("{fraction:0<width$}", width = pattern.fraction);
        if !fraction.is_empty() {
            text.push('.')?;
            text.push_str(&fraction)?;
        }
    }
    text.push_str(&pattern.suffix)
}

fn pattern(section: &str) -> Result<Pattern, TemplateFailure> {
    let mut pattern = Pattern::default();
    let mut after_point = false;
    let mut pending_commas = 0;
    let mut characters = section.chars();
    let mut seen_zero = false;
    while let Some(c) = characters.next() {
        match c {
            '0' | '#' => {
                pattern.has_digits = true;
                pattern.has_groups |= pending_commas > 0 && !after_point;
                pending_commas = 0;
                if after_point {
                    pattern.most_fraction += 1;
                    if c == '0' {
                        pattern.fraction = pattern.most_fraction;
                    }
                } else {
                    seen_zero |= c == '0';
                    pattern.whole += usize::from(seen_zero);
                }
                if pattern.whole.max(pattern.most_fraction) > MOST_DIGITS {
                    return Err(TemplateFailure::invalid(format!(
                        "a number format has at most {MOST_DIGITS} digits"
                    )));
                }
            }
            '.' => {
                pattern.thousands += std::mem::take(&mut pending_commas);
                after_point = true;
            }
            ',' => pending_commas += usize::from(pattern.has_digits && !after_point),
            _ => {
                let literal = match c {
                    '\'' | '"' => characters.by_ref().take_while(|next| *next != c).collect(),
                    '\\' => characters.next().map(String::from).unwrap_or_default(),
                    '%' => {
                        pattern.scale += 1;
                        "%".to_owned()
                    }
                    c => c.to_string(),
                };
                let side = if pattern.has_digits {
                    &mut pattern.suffix
                } else {
                    &mut pattern.prefix
                };
                side.push_str(&literal);
            }
        }
    }
    pattern.thousands += pending_commas;
    Ok(pattern)
}
