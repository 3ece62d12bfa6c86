//! .NET's formats of decimals, in the invariant culture: those of one letter.

use super::number_digits::{Digits, exponent};
use super::number_pattern::custom;
use crate::budget::Builder;
use crate::error::TemplateFailure;
use mainspring_language::{Decimal, Rounding};

/// The most digits that a format of one letter may ask for.
const MOST_DIGITS: usize = 99;

/// The digits of a format without a number: of `E`, and of the others.
const DIGITS: (usize, usize) = (6, 2);

/// Writes a number in a standard or a custom format.
pub(super) fn number(value: Decimal, format: &str, text: &mut Builder<'_, '_>) -> Result<(), TemplateFailure> {
    text.budget().spend_bytes(format.len())?;
    let mut characters = format.chars();
    let Some(letter) = characters.next() else {
        return text.push_str(&value.to_string());
    };
    let digits = characters.as_str();
    if !letter.is_ascii_alphabetic() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return custom(value, format, text);
    }
    let given = digits.parse::<usize>().ok();
    if !digits.is_empty() && given.is_none_or(|given| given > MOST_DIGITS) {
        return Err(TemplateFailure::invalid(format!(
            "a number has at most {MOST_DIGITS} digits"
        )));
    }
    let places = given.unwrap_or(DIGITS.1);
    match letter {
        'C' | 'c' => {
            let (is_negative, amount) = fixed(value, places, true);
            text.push_str(&if is_negative {
                format!("(¤{amount})")
            } else {
                format!("¤{amount}")
            })
        }
        'F' | 'f' => signed(fixed(value, places, false), text),
        'N' | 'n' => signed(fixed(value, places, true), text),
        'P' | 'p' => {
            let hundred = value.multiply(100_i64.into());
            let hundred =
                hundred.ok_or_else(|| TemplateFailure::invalid("the number is too large for a percentage"))?;
            signed(fixed(hundred, places, true), text)?;
            text.push_str(" %")
        }
        'E' | 'e' => scientific(value, given.unwrap_or(DIGITS.0), letter, text),
        'G' => general(value, given, 'E', text),
        'g' => general(value, given, 'e', text),
        _ => Err(TemplateFailure::invalid(format!(
            "the number format {} is unknown; use C, E, F, G, N or P with the number of digits, or one such as #,##0.00",
            format.chars().take(40).collect::<String>()
        ))),
    }
}

fn signed((is_negative, text): (bool, String), out: &mut Builder<'_, '_>) -> Result<(), TemplateFailure> {
    if is_negative {
        out.push('-')?;
    }
    out.push_str(&text)
}

/// A number with so many places, and whether it is negative then: what is rounded to 0 has no sign. Half goes away from zero.
fn fixed(value: Decimal, places: usize, has_groups: bool) -> (bool, String) {
    let rounded = value.round(u32::try_from(places).unwrap_or(0), Rounding::HalfAway);
    let plain = rounded.abs().to_string();
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    let mut text = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if has_groups && place > 0 && (whole.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if places > 0 {
        text.push('.');
        text.push_str(&format!("{fraction:0<places$}"));
    }
    (rounded.is_negative(), text)
}

/// One digit, so many places, and an exponent of three digits.
fn scientific(value: Decimal, places: usize, letter: char, text: &mut Builder<'_, '_>) -> Result<(), TemplateFailure> {
    let mut digits = Digits::of(value);
    digits.round(i64::try_from(places).unwrap_or(0) + 1);
    let shown = digits.shown();
    let (first, rest) = shown.split_at_checked(1).unwrap_or(("0", ""));
    let point = if places > 0 { "." } else { "" };
    let exponent = exponent(digits.exponent(), letter, 3, true);
    let sign = if digits.is_negative { "-" } else { "" };
    text.push_str(&format!("{sign}{first}{point}{rest:0<places$}{exponent}"))
}

/// So many digits, with an exponent where they do not reach the point, or are far behind it.
fn general(
    value: Decimal,
    count: Option<usize>,
    letter: char,
    text: &mut Builder<'_, '_>,
) -> Result<(), TemplateFailure> {
    /// Zeros behind the point that are written.
    const MOST_ZEROS: i64 = 3;
    let Some(count) = count else {
        // Without a number of digits all are written, zeros at the end, too.
        return text.push_str(&value.to_string());
    };
    let mut digits = Digits::of(value);
    // 0 stands for all of them.
    let all = digits.digits.len();
    let count = i64::try_from(if count == 0 { all } else { count }).unwrap_or(i64::MAX);
    digits.round(count);
    let shown = digits.shown();
    if digits.is_negative {
        text.push('-')?;
    }
    if digits.is_zero() {
        return text.push('0');
    }
    if digits.point > count || digits.point < -MOST_ZEROS {
        let (first, rest) = shown.split_at_checked(1).unwrap_or_default();
        let point = if rest.is_empty() { "" } else { "." };
        let exponent = exponent(digits.exponent(), letter, 2, true);
        return text.push_str(&format!("{first}{point}{rest}{exponent}"));
    }
    let before = usize::try_from(digits.point).unwrap_or(0);
    let zeros = usize::try_from(-digits.point).unwrap_or(0);
    let (whole, fraction) = shown.split_at_checked(before).unwrap_or((&shown, ""));
    text.push_str(if whole.is_empty() { "0" } else { whole })?;
    text.push_repeated('0', before.saturating_sub(shown.len()))?;
    if !fraction.is_empty() {
        text.push('.')?;
        text.push_repeated('0', zeros)?;
        text.push_str(fraction)?;
    }
    Ok(())
}
