//! What JSON may contain: bounded nesting, and no character that the database cannot store.

use serde_json::Value;

/// The deepest nesting of JSON that a definition or an input may have, in levels. It is the bound of the JSON parser
/// itself, so a text that parses never exceeds it; values built in memory are held to the same.
pub const MAX_DEPTH: usize = 128;

/// Why a JSON value cannot be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextProblem {
    /// It nests deeper than the bound.
    TooDeep,
    /// A string or a key holds U+0000.
    Nul,
}

/// Walks a value without recursion and tells its weight in bytes (about its length as JSON), or what is wrong with it.
pub(crate) fn inspect(value: &Value, max_depth: usize) -> Result<usize, TextProblem> {
    let mut weight = 0usize;
    let mut pending = vec![(value, 1usize)];
    while let Some((value, depth)) = pending.pop() {
        if depth > max_depth {
            return Err(TextProblem::TooDeep);
        }
        match value {
            Value::Null | Value::Bool(_) => weight += 5,
            Value::Number(_) => weight += 8,
            Value::String(text) => {
                if text.contains('\0') {
                    return Err(TextProblem::Nul);
                }
                weight += text.len() + 3;
            }
            Value::Array(items) => {
                weight += 2;
                pending.extend(items.iter().map(|item| (item, depth + 1)));
            }
            Value::Object(fields) => {
                weight += 2;
                for (key, field) in fields {
                    if key.contains('\0') {
                        return Err(TextProblem::Nul);
                    }
                    weight += key.len() + 4;
                    pending.push((field, depth + 1));
                }
            }
        }
    }
    Ok(weight)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn depth_is_counted_in_levels() {
        assert!(inspect(&json!([[1]]), 3).is_ok());
        assert_eq!(inspect(&json!([[1]]), 2), Err(TextProblem::TooDeep));
    }

    #[test]
    fn nul_is_found_in_keys_and_values() {
        assert_eq!(inspect(&json!({"a": ["x\0"]}), 9), Err(TextProblem::Nul));
        assert_eq!(inspect(&json!({"a\0": 1}), 9), Err(TextProblem::Nul));
    }
}
