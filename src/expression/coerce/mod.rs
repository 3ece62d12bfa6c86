//! Conversion of a JSON value to the type that an input, an output or a variable declares, with the outcome of Elsa's
//! `ObjectConverter`.
//!
//! Definitions write numbers, flags, lists and objects as text (`"value": "0"`), and scripts return 3.0 for 3. Null stays
//! null, and empty text is null unless text is wanted. A value that does not fit is an error that names the value and the
//! type, where Elsa has the default of the type. The tests have each kind of value with each type, and where both differ;
//! `docs/reference/conversions.md` is their table.
//!
//! # Layout
//!
//! `number`, `date` and `text` read and write values of one kind.

mod date;
mod number;
#[cfg(test)]
mod tests;
mod text;

use std::fmt;

use base64::Engine;
use mainspring_language::TimeSpan;
use serde_json::Value;
use uuid::Uuid;

pub(crate) use text::to_text;

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
    if value.is_null() || *to == TypeName::Any {
        return Ok(value);
    }
    if *to == TypeName::Text {
        return Ok(Value::String(to_text(value)));
    }
    let value = match value {
        Value::String(text) if text.trim().is_empty() && *to != TypeName::Bytes => return Ok(Value::Null),
        Value::String(text) if to.is_of_json() => match json_within(&text, to)? {
            Some(read) => read,
            None => Value::String(text),
        },
        value => value,
    };
    match to {
        TypeName::Any | TypeName::Text | TypeName::Json | TypeName::Own => Ok(value),
        TypeName::Boolean => boolean(value),
        TypeName::Integer(least, most) => number::integer(value, *least, *most),
        TypeName::Double => number::double(value),
        TypeName::Single => number::single(value),
        TypeName::Decimal => number::decimal(value),
        TypeName::TimeSpan => time_span(value),
        TypeName::DateTime => date::date_time(value),
        TypeName::DateTimeOffset => date::date_time_offset(value),
        TypeName::DateOnly => date::date_only(value),
        TypeName::Guid => guid(value),
        TypeName::Bytes => bytes(value),
        TypeName::Object => match value {
            Value::Object(_) => Ok(value),
            other => Err(mismatch(&other, "an object (write it as {\"name\": \"value\"})")),
        },
        TypeName::List(item) => list(value, item),
    }
}

/// What a text that looks like JSON says; `None` for any other text.
/// Errors: names the place in a text that begins like JSON, and is none.
fn json_within(text: &str, to: &TypeName) -> Result<Option<Value>, TypeMismatch> {
    if !text.trim_start().starts_with(['{', '[']) {
        return Ok(None);
    }
    serde_json::from_str(text).map(Some).map_err(|error| {
        let problem = mismatch(&Value::String(text.to_owned()), to.wanted());
        TypeMismatch(format!("{problem}: the JSON in it is broken: {error}"))
    })
}

fn mismatch(value: &Value, wanted: &str) -> TypeMismatch {
    const SHOWN: usize = 60;
    // The text of a large value is not made whole to show its beginning.
    let shown = match value {
        Value::String(text) if text.len() > 8 * SHOWN => {
            let start: String = text.chars().take(SHOWN).collect();
            Value::String(start).to_string().trim_end_matches('"').to_owned() + "…"
        }
        value => value.to_string(),
    };
    let mut short: String = shown.chars().take(SHOWN).collect();
    if short.len() < shown.len() {
        short.push('…');
    }
    TypeMismatch(format!("{short} is not {wanted}"))
}

fn boolean(value: Value) -> Result<Value, TypeMismatch> {
    let read = match &value {
        Value::Bool(flag) => Some(*flag),
        Value::Number(number) => number.as_f64().map(|number| number != 0.0),
        Value::String(text) if text.trim().eq_ignore_ascii_case("true") => Some(true),
        Value::String(text) if text.trim().eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    };
    read.map(Value::Bool).ok_or_else(|| mismatch(&value, "true or false"))
}

fn time_span(value: Value) -> Result<Value, TypeMismatch> {
    match value.as_str().and_then(TimeSpan::parse) {
        Some(span) => Ok(span.to_string().into()),
        None => Err(mismatch(
            &value,
            "a length of time (write it as \"00:00:05\", \"1.02:03:04\" or \"PT5S\")",
        )),
    }
}

/// Also in braces, in parentheses, and without dashes, as .NET reads it.
fn guid(value: Value) -> Result<Value, TypeMismatch> {
    let text = value.as_str().map(str::trim);
    let inner = text.map(|text| {
        let parentheses = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
        parentheses.unwrap_or(text)
    });
    let is_urn = inner.is_some_and(|text| text.starts_with("urn:"));
    match inner.filter(|_| !is_urn).and_then(|text| Uuid::try_parse(text).ok()) {
        Some(guid) => Ok(guid.to_string().into()),
        None => Err(mismatch(
            &value,
            "a Guid (write it as \"00000000-0000-0000-0000-000000000000\")",
        )),
    }
}

/// Bytes are Base64, as .NET writes it.
fn bytes(value: Value) -> Result<Value, TypeMismatch> {
    use base64::engine::general_purpose::STANDARD;
    let read = match &value {
        Value::String(text) => {
            let written: String = text
                .chars()
                .filter(|c| !matches!(c, ' ' | '\t' | '\r' | '\n'))
                .collect();
            STANDARD.decode(written).ok()
        }
        Value::Array(items) => {
            let byte = |item: &Value| item.as_u64().and_then(|number| u8::try_from(number).ok());
            items.iter().map(byte).collect()
        }
        _ => None,
    };
    read.map(|bytes| STANDARD.encode(bytes).into())
        .ok_or_else(|| mismatch(&value, "bytes (write them as Base64, with its padding)"))
}

fn list(value: Value, item: &TypeName) -> Result<Value, TypeMismatch> {
    let items = match value {
        Value::Array(items) => items,
        // Text is not split: it becomes a list of one.
        other @ (Value::String(_) | Value::Number(_) | Value::Bool(_)) => vec![other],
        other => return Err(mismatch(&other, "a list")),
    };
    let converted: Result<Vec<Value>, TypeMismatch> = items.into_iter().map(|value| coerce(value, item)).collect();
    converted.map(Value::Array)
}
