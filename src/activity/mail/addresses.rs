//! The texts of addresses.

use lettre::message::Mailbox;
use serde_json::Value;

use crate::expression::to_text;
use crate::mail::address;

/// The addresses of an input: a list of texts, or one text. What is empty is left out, as designers make it.
/// Errors: names the one that is none.
pub(super) fn addresses(value: &Value) -> Result<Vec<Mailbox>, String> {
    let items = match value {
        Value::Null => return Ok(Vec::new()),
        Value::Array(items) => items.as_slice(),
        Value::String(_) => std::slice::from_ref(value),
        _ => return Err("it is no list of addresses; write it as [\"ann@example.org\"]".to_owned()),
    };
    let texts = items
        .iter()
        .filter(|item| !item.is_null())
        .map(|item| to_text(item.clone()));
    let texts = texts.filter(|text| !text.trim().is_empty());
    texts.map(|text| address(&text)).collect()
}
