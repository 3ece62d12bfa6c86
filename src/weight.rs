//! The estimated memory of JSON, for caches and queues that are bounded in bytes.

use serde_json::{Map, Value};

/// The overhead of an allocation, in bytes.
const ALLOCATION: usize = 16;

/// The index of a map, in bytes per entry.
const INDEX: usize = 12;

/// The bytes of a text on the heap.
pub(crate) fn text(text: &str) -> usize {
    if text.is_empty() { 0 } else { text.len() + ALLOCATION }
}

/// The bytes that a value takes, with itself.
pub(crate) fn json(value: &Value) -> usize {
    size_of::<Value>() + on_heap(value)
}

/// The bytes that a map takes, with itself.
pub(crate) fn map(fields: &Map<String, Value>) -> usize {
    let entry = size_of::<(u64, String, Value)>() + INDEX;
    let keys: usize = fields.keys().map(|key| text(key)).sum();
    let values: usize = fields.values().map(on_heap).sum();
    size_of::<Map<String, Value>>() + capacity(fields.len()) * entry + keys + values
}

fn on_heap(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(string) => text(string),
        Value::Array(items) => capacity(items.len()) * size_of::<Value>() + items.iter().map(on_heap).sum::<usize>(),
        // The map itself is counted with the value.
        Value::Object(fields) => map(fields).saturating_sub(size_of::<Map<String, Value>>()),
    }
}

/// The capacity of a list, which grows by doubling.
fn capacity(entries: usize) -> usize {
    match entries {
        0 => 0,
        some => some.next_power_of_two().max(4),
    }
}

/// As many bytes of text count as one part.
const BYTES_OF_PART: usize = 16;

/// Whether a value has at least so many parts; counts no further. Texts and names count by their bytes.
pub(crate) fn has_at_least(value: &Value, parts: usize) -> bool {
    let mut left = parts;
    let mut pending = vec![value];
    while let Some(value) = pending.pop() {
        let found = match value {
            Value::Array(items) => items.len(),
            Value::Object(fields) => fields.keys().map(|name| 1 + name.len() / BYTES_OF_PART).sum(),
            Value::String(text) => text.len() / BYTES_OF_PART,
            _ => 0,
        };
        if found >= left {
            return true;
        }
        left -= found;
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
    fn a_larger_value_weighs_more() {
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
        assert!(has_at_least(&value, 6) && has_at_least(&value, 1));
        assert!(!has_at_least(&value, 8));
        assert!(has_at_least(&json!("x".repeat(160)), 10) && !has_at_least(&json!("x".repeat(160)), 11));
    }
}
