//! The limits of accepted JSON: bounded nesting, and no character that the database cannot store.

use serde_json::Value;

/// The deepest nesting of JSON that a definition or an input may have, in levels. It equals the limit of the JSON parser,
/// so parsed text never exceeds it; values built in memory have the same limit.
pub const MAX_DEPTH: usize = 128;

/// Why a JSON value cannot be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonLimitError {
    /// It nests deeper than the limit.
    TooDeep,
    /// A string or a key contains U+0000.
    Nul,
}

/// Checks a value without recursion; returns its approximate length as JSON, in bytes.
pub(crate) fn check_json(value: &Value, max_depth: usize) -> Result<usize, JsonLimitError> {
    let mut length = 0usize;
    let mut pending = vec![(value, 1usize)];
    while let Some((value, depth)) = pending.pop() {
        if depth > max_depth {
            return Err(JsonLimitError::TooDeep);
        }
        match value {
            Value::Null | Value::Bool(_) => length += 5,
            Value::Number(_) => length += 8,
            Value::String(text) => {
                if text.contains('\0') {
                    return Err(JsonLimitError::Nul);
                }
                length += text.len() + 3;
            }
            Value::Array(items) => {
                length += 2;
                pending.extend(items.iter().map(|item| (item, depth + 1)));
            }
            Value::Object(fields) => {
                length += 2;
                for (key, field) in fields {
                    if key.contains('\0') {
                        return Err(JsonLimitError::Nul);
                    }
                    length += key.len() + 4;
                    pending.push((field, depth + 1));
                }
            }
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn depth_is_counted_in_levels() {
        assert!(check_json(&json!([[1]]), 3).is_ok());
        assert_eq!(check_json(&json!([[1]]), 2), Err(JsonLimitError::TooDeep));
    }

    #[test]
    fn nul_is_found_in_keys_and_values() {
        assert_eq!(check_json(&json!({"a": ["x\0"]}), 9), Err(JsonLimitError::Nul));
        assert_eq!(check_json(&json!({"a\0": 1}), 9), Err(JsonLimitError::Nul));
    }
}
