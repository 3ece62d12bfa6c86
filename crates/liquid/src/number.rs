//! Numbers: .NET's decimal, its conversions and its texts.

use chrono::{DateTime, FixedOffset, Utc};
use serde_json::Number;

use super::budget::TemplateBudget;
use super::error::TemplateFailure;
use mainspring_language::Decimal;

/// A number of the data. A double keeps 15 digits, as .NET converts it.
pub(super) fn from_json(number: &Number) -> Result<Decimal, TemplateFailure> {
    if let Some(whole) = number.as_i64() {
        return Ok(Decimal::from(whole));
    }
    if let Some(whole) = number.as_u64() {
        return Ok(Decimal::from(whole));
    }
    let exact = number.as_f64().unwrap_or_default();
    let small = (exact.abs() < 1.0).then_some(Decimal::ZERO);
    Decimal::from_f64(exact).or(small).ok_or_else(|| {
        TemplateFailure::invalid(format!(
            "{number} is too large; a number in a template has at most 28 digits"
        ))
    })
}

/// The text of a number or a date without the white space around it. Counts the search for its ends.
pub(super) fn trimmed<'t>(text: &'t str, budget: &TemplateBudget<'_>) -> Result<&'t str, TemplateFailure> {
    budget.spend_bytes(text.len())?;
    Ok(text.trim())
}

/// A text without white space around it as a number, as .NET reads it: with signs, thousands, a point, an exponent, or in
/// parentheses as negative.
pub(super) fn parse(mut text: &str) -> Option<Decimal> {
    /// A decimal has 29 digits; longer texts are numbers only by their zeros.
    const LONGEST: usize = 100;
    if text.is_empty() || text.len() > LONGEST || !text.is_ascii() {
        return None;
    }
    let mut is_negative = false;
    if let Some(inner) = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        is_negative = true;
        text = inner.trim();
    } else if let Some(rest) = text.strip_prefix('-').or_else(|| text.strip_suffix('-')) {
        is_negative = true;
        text = rest.trim();
    } else if let Some(rest) = text.strip_prefix('+').or_else(|| text.strip_suffix('+')) {
        text = rest.trim();
    }
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let whole: String = whole.chars().filter(|&c| c != ',').collect();
    if (whole.is_empty() && fraction.is_empty()) || !digits(&whole) || !digits(fraction) {
        return None;
    }
    let plain = format!("{}.{fraction}", if whole.is_empty() { "0" } else { &whole });
    let plain = plain.trim_end_matches('.');
    let number = match exponent {
        None => Decimal::parse(plain)?,
        Some(exponent) => {
            let unsigned = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if unsigned.is_empty() || !digits(unsigned) {
                return None;
            }
            Decimal::parse_exponent(&format!("{plain}e{exponent}"))?
        }
    };
    Some(if is_negative { number.negate() } else { number })
}

/// A number as an output writes it: a whole number with decimals keeps one of them, others lose their last zeros.
pub(super) fn output(number: Decimal) -> String {
    if number.scale() == 0 {
        return number.to_string();
    }
    if number.is_whole() {
        return format!("{}.0", number.without_zeros());
    }
    let number = number.without_zeros();
    let exponent = exponent_of(number);
    if exponent > -5 {
        return number.to_string();
    }
    // .NET's G29 is scientific from 0.00001 on.
    let digits = number.parts().0.to_string();
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    let sign = if number.is_negative() { "-" } else { "" };
    format!("{sign}{first}{point}{rest}E-{:02}", -exponent)
}

/// The exponent of the first digit.
fn exponent_of(number: Decimal) -> i64 {
    let digits = number.parts().0.to_string().len();
    i64::try_from(digits).unwrap_or(0) - 1 - i64::from(number.scale())
}

/// .NET's ticks of a date, of 100 ns since the year 1, in its own offset.
pub(super) fn ticks(date: &DateTime<FixedOffset>) -> i64 {
    const UNIX_EPOCH: i64 = 621_355_968_000_000_000;
    let local = date.naive_local().and_utc();
    UNIX_EPOCH + local.timestamp() * 10_000_000 + i64::from(local.timestamp_subsec_nanos() / 100)
}

/// .NET's `u`: in UTC.
pub(super) fn date_text(date: &DateTime<FixedOffset>) -> String {
    date.with_timezone(&Utc).format("%Y-%m-%d %H:%M:%SZ").to_string()
}
