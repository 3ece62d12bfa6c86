//! Numbers: whole ones between bounds, doubles, singles and decimals.

use mainspring_language::Decimal;
use serde_json::{Number, Value};

use super::{TypeMismatch, mismatch};

/// A fraction is rounded to the nearest whole number, and to an even one from halfway, as .NET converts it. In a text it is
/// none.
pub(super) fn integer(value: Value, least: i128, most: i128) -> Result<Value, TypeMismatch> {
    let whole = match &value {
        Value::Number(number) => whole(number),
        Value::Bool(flag) => Some(i128::from(*flag)),
        Value::String(text) => whole_text(text.trim()),
        _ => None,
    };
    let within = whole.filter(|whole| (least..=most).contains(whole));
    let number = within.and_then(Number::from_i128);
    number
        .map(Value::Number)
        .ok_or_else(|| mismatch(&value, &format!("a whole number between {least} and {most}")))
}

fn whole(number: &Number) -> Option<i128> {
    let exact = number
        .as_i64()
        .map(i128::from)
        .or_else(|| number.as_u64().map(i128::from));
    exact.or_else(|| number.as_f64().and_then(rounded))
}

fn rounded(float: f64) -> Option<i128> {
    (float.abs() <= 18_446_744_073_709_551_616.0).then(|| float.round_ties_even() as i128)
}

/// Digits, digits with zeros behind the point, or hexadecimal ones behind `0x`, `&h` or `#`.
fn whole_text(text: &str) -> Option<i128> {
    let prefixes = ["0x", "0X", "&h", "&H", "#"];
    if let Some(digits) = prefixes.iter().find_map(|prefix| text.strip_prefix(prefix)) {
        let is_hexadecimal = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        return is_hexadecimal.then(|| i128::from_str_radix(digits, 16).ok()).flatten();
    }
    let parsed = text.parse::<i128>().ok();
    parsed.or_else(|| {
        let float = text.parse::<f64>().ok()?;
        // From 2^53 on a double cannot represent every integer.
        (float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_992.0).then(|| rounded(float))?
    })
}

pub(super) fn double(value: Value) -> Result<Value, TypeMismatch> {
    let wanted = "a number";
    match value {
        Value::Number(number) => match number.as_i64().filter(|whole| whole.unsigned_abs() > 1 << 53) {
            Some(whole) => of_f64(whole as f64).ok_or_else(|| mismatch(&Value::Number(number), wanted)),
            None => Ok(Value::Number(number)),
        },
        Value::Bool(flag) => Ok(u8::from(flag).into()),
        Value::String(text) => {
            let read = finite(text.trim()).and_then(of_f64);
            read.ok_or_else(|| mismatch(&Value::String(text), wanted))
        }
        other => Err(mismatch(&other, wanted)),
    }
}

/// The nearest single, as the shortest number that reads back as it.
pub(super) fn single(value: Value) -> Result<Value, TypeMismatch> {
    let wanted = "a number of single precision";
    let read = match &value {
        Value::Number(number) => number.as_f64(),
        Value::Bool(flag) => Some(f64::from(u8::from(*flag))),
        Value::String(text) => finite(text.trim()),
        _ => None,
    };
    let single = read.map(|number| number as f32).filter(|number| number.is_finite());
    let shortest = single.and_then(|number| number.to_string().parse().ok());
    shortest.and_then(of_f64).ok_or_else(|| mismatch(&value, wanted))
}

/// At most 28 digits behind the point. It is kept as a number of JSON, which has no zeros at its end, or as text if it has more
/// digits than such a number.
pub(super) fn decimal(value: Value) -> Result<Value, TypeMismatch> {
    let wanted = "a decimal number between -79228162514264337593543950335 and 79228162514264337593543950335";
    let read = match &value {
        Value::Number(number) => Decimal::parse_exponent(&number.to_string()),
        Value::Bool(flag) => return Ok(u8::from(*flag).into()),
        Value::String(text) => Decimal::parse_exponent(text.trim()),
        _ => None,
    };
    match (value, read) {
        (value @ Value::Number(_), Some(_)) => Ok(value),
        (_, Some(exact)) => {
            if let Some(whole) = exact.to_i64().filter(|_| exact.is_whole()) {
                return Ok(whole.into());
            }
            let nearest = Number::from_f64(exact.to_f64());
            let is_exact = |number: &Number| Decimal::parse_exponent(&number.to_string()) == Some(exact);
            Ok(nearest
                .filter(is_exact)
                .map_or_else(|| exact.to_string().into(), Value::Number))
        }
        (value, None) => Err(mismatch(&value, wanted)),
    }
}

/// A number with a point or an exponent; JSON has neither infinities nor NaN.
fn finite(text: &str) -> Option<f64> {
    let is_number = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    let read = text.parse::<f64>().ok().filter(|_| is_number);
    read.filter(|number| number.is_finite())
}

/// Without a fraction a number is written as a whole one.
fn of_f64(number: f64) -> Option<Value> {
    let is_whole = number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0 && !is_negative_zero(number);
    if is_whole {
        return Some((number as i64).into());
    }
    Number::from_f64(number).map(Value::Number)
}

fn is_negative_zero(number: f64) -> bool {
    number == 0.0 && number.is_sign_negative()
}
