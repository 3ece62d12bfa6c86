//! `JsonSerializer`: JSON text as System.Text.Json writes it by default.

use std::fmt::Write;

use super::arguments::Arguments;
use crate::convert::{bytes_of, from_json, iso_text, no_json, read_json};
use crate::problem::{Evaluated, Stop, StopKind};
use crate::run::Meter;
use crate::syntax::Call;
use crate::text::{text_of, units};
use crate::types::Ty;
use crate::value::Value;

/// As deep as .NET writes.
const DEEPEST: usize = 64;

pub(super) fn call_static(name: &str, call: &Call, arguments: &Arguments<'_, '_>) -> Evaluated<Option<Value>> {
    let meter = arguments.meter();
    Ok(Some(match name {
        "Serialize" => Value::text(serialize(arguments.value(0)?, meter)?),
        "Deserialize" | "Parse" => {
            let text = arguments.text(0)?;
            let json = read_json(&text, meter)?
                .map_err(|error| Stop::thrown("JsonException", format!("the text is not JSON: {error}")))?;
            from_json(&json, call.types.first().unwrap_or(&Ty::Dynamic), meter)?
        }
        _ => return Ok(None),
    }))
}

/// A value as text of JSON.
pub(crate) fn serialize(value: &Value, meter: &Meter<'_>) -> Evaluated<String> {
    let mut out = String::new();
    write(value, &mut out, 0, meter)?;
    Ok(out)
}

fn write(value: &Value, out: &mut String, depth: usize, meter: &Meter<'_>) -> Evaluated<()> {
    if depth > DEEPEST {
        let message = format!("the value is nested more than {DEEPEST} levels deep, or contains itself");
        return Err(Stop::new(StopKind::TooLarge, message));
    }
    meter.hold(16)?;
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Int(_) | Value::Long(_) | Value::Decimal(_) => out.push_str(&text_of(value)),
        Value::Enum(_, number) => drop(write!(out, "{number}")),
        Value::Double(number) if number.is_finite() => out.push_str(&mainspring_language::double_text(*number)),
        Value::Double(_) => {
            return Err(Stop::thrown(
                "ArgumentException",
                "NaN and Infinity have no form in JSON",
            ));
        }
        Value::Text(text) => quoted(text, out, meter)?,
        Value::Char(_) | Value::Guid(_) | Value::Span(_) => quoted(&text_of(value), out, meter)?,
        // Dates are written as they are: the + of an offset is no text of the script.
        Value::Date(_) | Value::Offset(_) => drop(write!(out, "\"{}\"", iso_text(value))),
        Value::List(list) if list.item == Ty::Byte => {
            let text = super::to_base64(&bytes_of(list));
            quoted(&text, out, meter)?;
        }
        Value::Object(_) | Value::Function(_) => return Err(no_json(value)),
        Value::List(list) => {
            out.push('[');
            for (place, item) in list.items.borrow().iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                write(item, out, depth + 1, meter)?;
            }
            out.push(']');
        }
        Value::Map(map) => {
            out.push('{');
            for (place, (key, value)) in map.entries.borrow().iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                quoted(&text_of(key), out, meter)?;
                out.push(':');
                write(value, out, depth + 1, meter)?;
            }
            out.push('}');
        }
        Value::Record(record) => {
            out.push('{');
            for (place, (name, value)) in record.fields.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                quoted(name, out, meter)?;
                out.push(':');
                write(value, out, depth + 1, meter)?;
            }
            out.push('}');
        }
    }
    Ok(())
}

/// .NET escapes all but plain ASCII, and what HTML would read.
fn quoted(text: &str, out: &mut String, meter: &Meter<'_>) -> Evaluated<()> {
    let escapes = text.chars().filter(|c| !c.is_ascii_alphanumeric() && *c != ' ').count();
    meter.hold(text.len() + 5 * escapes)?;
    out.push('"');
    for unit in units(text) {
        let plain = u8::try_from(unit)
            .ok()
            .filter(|byte| (0x20..0x7f).contains(byte) && !b"\"&'+<>`\\".contains(byte));
        match (plain, unit) {
            (Some(byte), _) => out.push(char::from(byte)),
            (None, 0x08) => out.push_str("\\b"),
            (None, 0x09) => out.push_str("\\t"),
            (None, 0x0a) => out.push_str("\\n"),
            (None, 0x0c) => out.push_str("\\f"),
            (None, 0x0d) => out.push_str("\\r"),
            (None, 0x5c) => out.push_str("\\\\"),
            (None, unit) => drop(write!(out, "\\u{unit:04X}")),
        }
    }
    out.push('"');
    Ok(())
}
