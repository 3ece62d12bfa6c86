//! The filters `json` and `default`. JSON text is escaped as in .NET: ASCII only, and safe within HTML.

use super::{Call, Filter, Filtered, filter};
use crate::budget::{Builder, TemplateBudget};
use crate::error::TemplateFailure;
use crate::value::{Kind, Value};

pub(super) static FILTERS: [Filter; 2] = [
    filter("json", |call| {
        let mut text = call.builder();
        write(&call.input, &mut text, call.budget)?;
        call.made(text)
    }),
    filter("default", default),
];

/// Another value for nil, false and what is empty.
fn default<'a>(call: Call<'a, '_>) -> Filtered<'a> {
    let allows_false = matches!(call.named("allow_false"), Some(Value::Boolean(true)));
    let is_false = matches!(call.input, Value::Boolean(false)) && !allows_false;
    let is_empty = match &call.input {
        Value::Text(text) => text.is_empty(),
        Value::Map(fields) => fields.is_empty(),
        value => value.is_nil() || (value.kind() == Kind::List && value.len() == 0),
    };
    Ok(if is_false || is_empty {
        call.argument(0)
    } else {
        call.input
    })
}

/// Writes a value as JSON.
pub(super) fn write(
    value: &Value<'_>,
    text: &mut Builder<'_, '_>,
    budget: &TemplateBudget<'_>,
) -> Result<(), TemplateFailure> {
    budget.spend(1)?;
    match value {
        // The type is of the left side, a boolean is the result.
        Value::Compared(left, result) => match &**left {
            Value::Boolean(_) => text.push_str(if *result { "true" } else { "false" }),
            Value::Text(_) => quoted(if *result { "true" } else { "false" }, text),
            left => write(left, text, budget),
        },
        Value::Nil | Value::ForLoop(_) | Value::Model | Value::Variables | Value::Inputs => text.push_str("null"),
        Value::Empty | Value::Blank => text.push_str("\"\""),
        Value::Boolean(flag) => text.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => text.push_str(&number.to_string()),
        Value::Text(value) => quoted(value, text),
        Value::Date(date) => {
            let seconds = date.format("%Y-%m-%dT%H:%M:%S").to_string();
            let fraction = format!("{:07}", date.timestamp_subsec_nanos() / 100);
            let fraction = fraction.trim_end_matches('0');
            let point = if fraction.is_empty() { "" } else { "." };
            text.push_str(&format!("\"{seconds}{point}{fraction}{}\"", date.format("%:z")))
        }
        Value::Map(fields) => {
            text.push('{')?;
            for (number, (key, value)) in fields.iter().enumerate() {
                if number > 0 {
                    text.push(',')?;
                }
                quoted(key, text)?;
                text.push(':')?;
                write(&Value::from_json(value)?, text, budget)?;
            }
            text.push('}')
        }
        Value::Items(_) | Value::List(_) | Value::Range(..) => {
            text.push('[')?;
            for index in 0..value.len() {
                if index > 0 {
                    text.push(',')?;
                }
                write(&value.item(index)?.unwrap_or(Value::Nil), text, budget)?;
            }
            text.push(']')
        }
    }
}

fn quoted(value: &str, text: &mut Builder<'_, '_>) -> Result<(), TemplateFailure> {
    text.budget().spend_bytes(value.len())?;
    text.push('"')?;
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\")?,
            '\u{8}' => text.push_str("\\b")?,
            '\t' => text.push_str("\\t")?,
            '\n' => text.push_str("\\n")?,
            '\u{c}' => text.push_str("\\f")?,
            '\r' => text.push_str("\\r")?,
            '"' | '&' | '\'' | '+' | '<' | '>' | '`' => text.push_str(&format!("\\u{:04X}", u32::from(c)))?,
            ' '..='~' => text.push(c)?,
            c => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    text.push_str(&format!("\\u{unit:04X}"))?;
                }
            }
        }
    }
    text.push('"')
}
