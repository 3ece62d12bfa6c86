//! Conversion of a JSON value to the type that an input or a variable declares.
//!
//! Definitions write numbers, flags and lists as text (`"value": "0"`), and scripts return 3.0 for 3. Only lossless
//! conversions are made; a value that does not fit is an error that names the value and the type. Null stays null.

use std::fmt;

use chrono::{DateTime, NaiveDate, NaiveDateTime, SecondsFormat, Utc};
use mainspring_language::TimeSpan;
use serde_json::{Number, Value};

use super::type_name::TypeName;

/// A value that does not fit its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TypeMismatch(String);

impl fmt::Display for TypeMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Converts a value to a type.
/// Errors: [`TypeMismatch`] when the value cannot be read as one of that type.
pub(crate) fn coerce(value: Value, to: &TypeName) -> Result<Value, TypeMismatch> {
    if value.is_null() {
        return Ok(value);
    }
    match to {
        TypeName::Any => Ok(value),
        TypeName::Text => Ok(Value::String(to_text(value))),
        TypeName::Boolean => boolean(&value),
        TypeName::Integer(least, most) => integer(&value, *least, *most),
        TypeName::Number => number(&value),
        TypeName::TimeSpan => time_span(&value),
        TypeName::DateTime => date_time(&value),
        TypeName::List(item) => list(value, item),
    }
}

/// A value as text: text unchanged, other values as JSON.
pub(crate) fn to_text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        Value::Null => String::new(),
        // .NET writes a double without a fraction as a whole number.
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 1e15 => format!("{float:.0}"),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}

fn mismatch(value: &Value, wanted: &str) -> TypeMismatch {
    let mut shown: String = value.to_string().chars().take(60).collect();
    if shown.len() < value.to_string().len() {
        shown.push('…');
    }
    TypeMismatch(format!("{shown} is not {wanted}"))
}

fn boolean(value: &Value) -> Result<Value, TypeMismatch> {
    let wanted = "true or false";
    match value {
        Value::Bool(_) => Ok(value.clone()),
        Value::Number(number) => match number.as_f64() {
            Some(float) => Ok((float != 0.0).into()),
            None => Err(mismatch(value, wanted)),
        },
        Value::String(text) if text.trim().eq_ignore_ascii_case("true") => Ok(true.into()),
        Value::String(text) if text.trim().eq_ignore_ascii_case("false") => Ok(false.into()),
        Value::String(text) if text.trim().is_empty() => Ok(Value::Null),
        _ => Err(mismatch(value, wanted)),
    }
}

fn integer(value: &Value, least: i64, most: i64) -> Result<Value, TypeMismatch> {
    let wanted = format!("a whole number between {least} and {most}");
    let from_float = |float: f64| {
        // From 2^53 on a double cannot represent every integer.
        let is_exact = float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_992.0;
        #[allow(clippy::cast_possible_truncation)]
        is_exact.then_some(float as i64)
    };
    let whole = match value {
        Value::Number(number) => number.as_i64().or_else(|| number.as_f64().and_then(from_float)),
        Value::Bool(flag) => Some(i64::from(*flag)),
        Value::String(text) if text.trim().is_empty() => return Ok(Value::Null),
        Value::String(text) => {
            let text = text.trim();
            text.parse().ok().or_else(|| text.parse().ok().and_then(from_float))
        }
        _ => None,
    };
    match whole.filter(|whole| (least..=most).contains(whole)) {
        Some(whole) => Ok(whole.into()),
        None => Err(mismatch(value, &wanted)),
    }
}

fn number(value: &Value) -> Result<Value, TypeMismatch> {
    let wanted = "a number";
    match value {
        Value::Number(_) => Ok(value.clone()),
        Value::String(text) if text.trim().is_empty() => Ok(Value::Null),
        Value::String(text) => {
            let text = text.trim();
            if let Ok(whole) = text.parse::<i64>() {
                return Ok(whole.into());
            }
            let parsed = text.parse::<f64>().ok().and_then(Number::from_f64);
            parsed.map(Value::Number).ok_or_else(|| mismatch(value, wanted))
        }
        _ => Err(mismatch(value, wanted)),
    }
}

fn time_span(value: &Value) -> Result<Value, TypeMismatch> {
    let parsed = match value {
        Value::String(text) if text.trim().is_empty() => return Ok(Value::Null),
        Value::String(text) => TimeSpan::parse(text),
        _ => None,
    };
    match parsed {
        Some(span) => Ok(span.to_string().into()),
        None => Err(mismatch(
            value,
            "a length of time (write it as \"00:00:05\", \"1.02:03:04\" or \"PT5S\")",
        )),
    }
}

fn date_time(value: &Value) -> Result<Value, TypeMismatch> {
    let wanted = "a date and time (write it as \"2026-01-31T12:00:00Z\")";
    let text = match value {
        Value::String(text) if text.trim().is_empty() => return Ok(Value::Null),
        Value::String(text) => text.trim(),
        _ => return Err(mismatch(value, wanted)),
    };
    // Without an offset it is UTC: the result must not depend on a node's time zone.
    let at = DateTime::parse_from_rfc3339(text)
        .map(|at| at.with_timezone(&Utc))
        .ok()
        .or_else(|| text.parse::<NaiveDateTime>().ok().map(|at| at.and_utc()))
        .or_else(|| {
            text.parse::<NaiveDate>()
                .ok()?
                .and_hms_opt(0, 0, 0)
                .map(|at| at.and_utc())
        });
    match at {
        Some(at) => Ok(at.to_rfc3339_opts(SecondsFormat::AutoSi, true).into()),
        None => Err(mismatch(value, wanted)),
    }
}

fn list(value: Value, item: &TypeName) -> Result<Value, TypeMismatch> {
    let items = match value {
        Value::Array(items) => items,
        Value::String(text) if text.trim().is_empty() => return Ok(Value::Null),
        Value::String(text) if text.trim_start().starts_with('[') => match serde_json::from_str(&text) {
            Ok(Value::Array(items)) => items,
            _ => return Err(mismatch(&Value::String(text), "a list")),
        },
        // Text is not split: it becomes a list of one.
        other @ (Value::String(_) | Value::Number(_) | Value::Bool(_)) => vec![other],
        other => return Err(mismatch(&other, "a list")),
    };
    items
        .into_iter()
        .map(|value| coerce(value, item))
        .collect::<Result<Vec<_>, _>>()
        .map(Value::Array)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn to(name: &str, value: Value) -> Result<Value, TypeMismatch> {
        coerce(value, &TypeName::parse(name, false))
    }

    #[test]
    fn text_is_converted_to_the_declared_type() {
        assert_eq!(to("Int32", json!("0")).unwrap(), json!(0));
        assert_eq!(to("Int32", json!(3.0)).unwrap(), json!(3));
        assert_eq!(to("Boolean", json!("True")).unwrap(), json!(true));
        assert_eq!(to("Decimal", json!("1.5")).unwrap(), json!(1.5));
        assert_eq!(to("TimeSpan", json!("PT5S")).unwrap(), json!("00:00:05"));
        assert_eq!(
            to("DateTime", json!("2026-01-31T13:00:00+01:00")).unwrap(),
            json!("2026-01-31T12:00:00Z")
        );
        assert_eq!(to("Int32[]", json!("[1, \"2\"]")).unwrap(), json!([1, 2]));
        assert_eq!(to("String", json!({"a": 1})).unwrap(), json!("{\"a\":1}"));
        assert_eq!(to("String", json!(2.0)).unwrap(), json!("2"));
        assert_eq!(to("Boolean", json!(null)).unwrap(), json!(null));
    }

    #[test]
    fn a_value_that_does_not_fit_is_named_in_the_error() {
        assert!(to("Int32", json!(3_000_000_000u64)).is_err());
        assert!(to("Int32", json!(1.5)).is_err());
        assert!(to("Boolean", json!("maybe")).unwrap_err().to_string().contains("maybe"));
        assert!(to("TimeSpan", json!("soon")).is_err());
        assert!(to("Object[]", json!({})).is_err());
    }
}
