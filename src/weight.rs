//! How much memory JSON takes: an estimate, for what is bounded by bytes.

use serde_json::{Map, Value};

/// What an allocation costs beyond what was asked for.
const ALLOCATION: usize = 16;

/// What an index of a map takes for each entry beside it.
const INDEX: usize = 12;

/// The bytes of a text on the heap.
pub(crate) fn text(text: &str) -> usize {
    if text.is_empty() { 0 } else { text.len() + ALLOCATION }
}

/// The bytes that a value takes, with itself.
pub(crate) fn json(value: &Value) -> usize {
    size_of::<Value>() + below(value)
}

/// The bytes that a map takes, with itself.
pub(crate) fn map(fields: &Map<String, Value>) -> usize {
    let entry = size_of::<(u64, String, Value)>() + INDEX;
    let keys: usize = fields.keys().map(|key| text(key)).sum();
    let values: usize = fields.values().map(below).sum();
    size_of::<Map<String, Value>>() + room(fields.len()) * entry + keys + values
}

fn below(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(string) => text(string),
        Value::Array(items) => room(items.len()) * size_of::<Value>() + items.iter().map(below).sum::<usize>(),
        // The map itself stands in the value.
        Value::Object(fields) => map(fields).saturating_sub(size_of::<Map<String, Value>>()),
    }
}

/// Lists grow by doubling.
fn room(entries: usize) -> usize {
    match entries {
        0 => 0,
        some => some.next_power_of_two().max(4),
    }
}

/// Whether a value has more parts than `most`; asked without a walk over the rest.
pub(crate) fn has_more_parts(value: &Value, most: usize) -> bool {
    let mut left = most;
    let mut pending = vec![value];
    while let Some(value) = pending.pop() {
        let parts = match value {
            Value::Array(items) => items.len(),
            Value::Object(fields) => fields.len(),
            _ => 0,
        };
        if parts >= left {
            return true;
        }
        left -= parts;
        match value {
            Value::Array(items) => pending.extend(items),
            Value::Object(fields) => pending.extend(fields.values()),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_larger_weighs_more() {
        let weights = [
            json(&json!(null)),
            json(&json!("a text of some length")),
            json(&json!(["a text of some length"])),
            json(&json!({"key": ["a text of some length"]})),
            json(&json!({"key": ["a text of some length", {"a": 1}]})),
        ];
        assert!(weights.is_sorted_by(|less, more| less < more), "{weights:?}");
    }

    #[test]
    fn parts_are_counted_at_every_level() {
        let value = json!({"a": [1, 2, 3], "b": {"c": [4]}});
        assert!(has_more_parts(&value, 6) && has_more_parts(&value, 1));
        assert!(!has_more_parts(&value, 8));
        assert!(!has_more_parts(&json!("x".repeat(100)), 1));
    }
}
