//! Names and values in the encoding of forms and queries.

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

/// The names and values of `application/x-www-form-urlencoded` or of a query, in their order. What is no escape stays as it is,
/// and bytes that are no UTF-8 become U+FFFD.
pub(crate) fn decode_pairs(text: &str) -> Vec<(String, String)> {
    let parts = text.split('&').filter(|part| !part.is_empty());
    let pairs = parts.map(|part| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        (decode(name), decode(value))
    });
    pairs.collect()
}

/// Decodes escapes, and `+` as a space.
fn decode(text: &str) -> String {
    percent_decoded(&text.replace('+', " "))
}

/// Decodes escapes. What is no escape stays as it is, and bytes that are no UTF-8 become U+FFFD.
pub(crate) fn percent_decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Names and values as a form sends them.
pub(crate) fn encode_pairs<'p>(pairs: impl IntoIterator<Item = (&'p str, &'p str)>) -> String {
    let mut text = String::new();
    for (name, value) in pairs {
        if !text.is_empty() {
            text.push('&');
        }
        encode(name, &mut text);
        text.push('=');
        encode(value, &mut text);
    }
    text
}

fn encode(text: &str, to: &mut String) {
    const HEX: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F',
    ];
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => to.push(char::from(byte)),
            b' ' => to.push('+'),
            byte => {
                to.push('%');
                to.extend([byte >> 4, byte & 15].map(|digit| HEX.get(usize::from(digit)).copied().unwrap_or('0')));
            }
        }
    }
}

/// Names and values as a value: that of a name that is repeated is a list, in the order of the values. Names differ by case.
pub(crate) fn dictionary(pairs: impl IntoIterator<Item = (String, String)>) -> Map<String, Value> {
    let mut values = Map::new();
    for (name, value) in pairs {
        match values.get_mut(&name) {
            None => drop(values.insert(name, Value::String(value))),
            Some(Value::Array(several)) => several.push(Value::String(value)),
            Some(first) => *first = Value::Array(vec![first.take(), Value::String(value)]),
        }
    }
    values
}
