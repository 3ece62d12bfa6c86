//! Values as text, as .NET writes them.

use std::fmt::Write;

use mainspring_language::double_text;
use serde_json::Value;

/// A value as text: text unchanged, `True` and `False`, objects and lists as JSON.
pub(crate) fn to_text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        Value::Null => String::new(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => double_text(float),
            _ => number.to_string(),
        },
        Value::Array(_) | Value::Object(_) => {
            let mut out = String::new();
            json(&value, &mut out);
            out
        }
    }
}

/// JSON as `System.Text.Json` writes it with all of Unicode allowed: what HTML would read is escaped, and what is outside of
/// the Basic Multilingual Plane. The depth of a value is bounded where it is read.
fn json(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => out.push_str(&double_text(float)),
            _ => drop(write!(out, "{number}")),
        },
        Value::String(text) => quoted(text, out),
        Value::Array(items) => {
            out.push('[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                json(item, out);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            out.push('{');
            for (place, (name, field)) in fields.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                quoted(name, out);
                out.push(':');
                json(field, out);
            }
            out.push('}');
        }
    }
}

fn quoted(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            character if is_plain(character) => out.push(character),
            character => {
                let mut units = [0; 2];
                for unit in character.encode_utf16(&mut units) {
                    let _ = write!(out, "\\u{unit:04X}");
                }
            }
        }
    }
    out.push('"');
}

/// Not: what HTML reads, control characters, spaces other than the usual one, separators, and characters for private use.
fn is_plain(character: char) -> bool {
    let is_space = character.is_whitespace() && character != ' ';
    !matches!(character, '"' | '&' | '\'' | '+' | '<' | '>' | '`' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..='\u{fff8}')
        && u32::from(character) <= 0xfffd
        && !character.is_control()
        && !is_space
}
