//! Standard formats of numbers: `C D E F G N P R X B`.

use mainspring_language::double_text;

use super::digits::{Digits, Precision, digits_of, group};
use super::{FormatError, LONGEST, MOST_DIGITS, custom_number};
use crate::value::Value;

fn plain(value: &Value) -> String {
    match value {
        Value::Double(number) => double_text(*number),
        Value::Decimal(number) => number.to_string(),
        other => other.as_i64().unwrap_or(0).to_string(),
    }
}

/// A number by a format.
pub(crate) fn number(value: &Value, format: &str) -> Result<String, FormatError> {
    if format.is_empty() {
        return Ok(plain(value));
    }
    if format.len() > LONGEST {
        return Err(FormatError::invalid(format));
    }
    let mut chars = format.chars();
    let letter = chars.next().unwrap_or('G');
    let rest = chars.as_str();
    let is_standard = letter.is_ascii_alphabetic() && rest.len() <= 3 && rest.bytes().all(|byte| byte.is_ascii_digit());
    if !is_standard {
        // A custom format sees fifteen digits of a double, and rounds those half away from zero.
        return match digits_of(value, Precision::Significant(15)) {
            Some(digits) => custom_number::format(digits, format),
            None => Ok(plain(value)),
        };
    }
    let precision = if rest.is_empty() {
        None
    } else {
        rest.parse::<usize>().ok()
    };
    if precision.is_some_and(|precision| precision > MOST_DIGITS) {
        return Err(FormatError(format!(
            "the format {format} asks for more than {MOST_DIGITS} digits"
        )));
    }
    let shown = match (letter.to_ascii_uppercase(), precision) {
        ('P', places) => Precision::Places(places.unwrap_or(2) + 2),
        ('E', places) => Precision::Significant(places.unwrap_or(6) + 1),
        ('G', Some(count)) => Precision::Significant(count),
        (_, places) => Precision::Places(places.unwrap_or(2)),
    };
    let Some(mut digits) = digits_of(value, shown) else {
        return Ok(plain(value));
    };
    let whole = value.as_i64();
    let text = match letter.to_ascii_uppercase() {
        'F' => fixed(&mut digits, precision.unwrap_or(2), false),
        'N' => fixed(&mut digits, precision.unwrap_or(2), true),
        'C' => {
            let places = precision.unwrap_or(2);
            digits.round(i32::try_from(places).unwrap_or(0));
            let is_negative = std::mem::take(&mut digits.is_negative);
            let text = fixed(&mut digits, places, true);
            if is_negative {
                format!("(\u{a4}{text})")
            } else {
                format!("\u{a4}{text}")
            }
        }
        'P' => {
            digits.point += 2;
            format!("{} %", fixed(&mut digits, precision.unwrap_or(2), true))
        }
        'D' => {
            let whole = whole.ok_or_else(|| FormatError::invalid(format))?;
            let sign = if whole < 0 { "-" } else { "" };
            let width = precision.unwrap_or(0);
            format!("{sign}{:0width$}", whole.unsigned_abs())
        }
        'X' | 'B' => {
            whole.ok_or_else(|| FormatError::invalid(format))?;
            let width = precision.unwrap_or(0);
            based(value, letter, width)
        }
        'E' => exponential(&digits, precision.unwrap_or(6), letter, 3),
        'R' => plain(value),
        'G' => match precision.filter(|precision| *precision > 0) {
            None => plain(value),
            Some(precision) => general(value, digits, precision, letter),
        },
        _ => return Err(FormatError::invalid(format)),
    };
    Ok(text)
}

fn based(value: &Value, letter: char, width: usize) -> String {
    let bits = match value {
        Value::Long(number) => *number as u64,
        Value::Int(number) => u64::from(*number as u32),
        other => other.as_i64().unwrap_or(0) as u64,
    };
    match letter {
        'X' => format!("{bits:0width$X}"),
        'x' => format!("{bits:0width$x}"),
        _ => format!("{bits:0width$b}"),
    }
}

fn fixed(digits: &mut Digits, places: usize, grouped: bool) -> String {
    digits.round(i32::try_from(places).unwrap_or(0));
    let whole = digits.whole();
    let whole = if grouped { group(&whole) } else { whole };
    let sign = if digits.is_negative { "-" } else { "" };
    if places == 0 {
        return format!("{sign}{whole}");
    }
    format!("{sign}{whole}.{}", digits.places(places))
}

fn exponential(digits: &Digits, precision: usize, letter: char, least: usize) -> String {
    let mut digits = digits.clone();
    let leading = digits.digits.iter().take_while(|digit| **digit == 0).count();
    digits.digits.drain(..leading);
    digits.point -= i32::try_from(leading).unwrap_or(0);
    if digits.digits.is_empty() {
        digits.point = 1;
    }
    let keep = i32::try_from(precision).unwrap_or(0) + 1 - digits.point;
    digits.round(keep);
    let exponent = if digits.digits.is_empty() { 0 } else { digits.point - 1 };
    let mantissa: String = (0..=precision)
        .map(|place| char::from(b'0' + digits.digits.get(place).copied().unwrap_or(0)))
        .collect();
    let (first, rest) = mantissa.split_at(1.min(mantissa.len()));
    let point = if rest.is_empty() { "" } else { "." };
    let sign = if digits.is_negative { "-" } else { "" };
    let exponent_sign = if exponent < 0 { '-' } else { '+' };
    let width = least;
    format!(
        "{sign}{first}{point}{rest}{letter}{exponent_sign}{:0width$}",
        exponent.abs()
    )
}

fn general(value: &Value, mut digits: Digits, precision: usize, letter: char) -> String {
    let leading = digits.digits.iter().take_while(|digit| **digit == 0).count();
    digits.digits.drain(..leading);
    digits.point -= i32::try_from(leading).unwrap_or(0);
    if digits.digits.is_empty() {
        return "0".to_owned();
    }
    if let Value::Decimal(number) = value
        && precision >= digits.digits.len()
    {
        return number.without_zeros().to_string();
    }
    let most = i32::try_from(precision).unwrap_or(0);
    let keep = most - digits.point;
    digits.round(keep);
    while digits.digits.last() == Some(&0) {
        digits.digits.pop();
    }
    let exponent = digits.point - 1;
    if exponent >= most || exponent < -4 {
        let count = digits.digits.len().saturating_sub(1);
        let letter = if letter == 'g' { 'e' } else { 'E' };
        return exponential(&digits, count, letter, 2);
    }
    let places = i32::try_from(digits.digits.len()).unwrap_or(0) - digits.point;
    let sign = if digits.is_negative { "-" } else { "" };
    let places = usize::try_from(places.max(0)).unwrap_or(0);
    if places == 0 {
        return format!("{sign}{}", digits.whole());
    }
    format!("{sign}{}.{}", digits.whole(), digits.places(places))
}
